"""Dropout inside the kernels: a hash of row, column and seeds decides whether a number is kept.

No mask is stored: the backward pass computes the same hash again. A strong hash is computed once per row and once per
column; combining the two costs one multiplication per number.
"""

import triton
import triton.language as tl


@triton.jit
def _hash(place, seed):
    mixed = place.to(tl.uint32) ^ seed
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B
    return mixed ^ (mixed >> 16)


@triton.jit
def keeps(rows, columns, seeds, threshold, TURNED: tl.constexpr = False):
    """Return a mask of the numbers to keep; the two words at `seeds` make each dropout different.

    With TURNED, the mask is transposed: columns down, rows across.
    """
    of_row = _hash(rows, tl.load(seeds).to(tl.uint32))
    of_column = _hash(columns, tl.load(seeds + 1).to(tl.uint32)) | 1  # odd, to keep all bits of the row
    mixed = of_column[:, None] * of_row[None, :] if TURNED else of_row[:, None] * of_column[None, :]
    return mixed >= threshold


def threshold(chance: float) -> int:
    """Return the hash below which a number is dropped."""
    return round(chance * 2**32)
