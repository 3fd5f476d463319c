"""Dropout inside the kernels: whether a number is kept is a hash of its row, of its column and of the seeds.

Nothing is stored between the forward and the backward pass: both ask the same question and get the same answer. Rows
and columns are hashed well, each once; what is left to do for each number is one multiplication.
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
    """Say which numbers in these rows and columns are kept; two words at `seeds` make a dropout differ from others.

    Turned, the answer has the columns down and the rows across.
    """
    of_row = _hash(rows, tl.load(seeds).to(tl.uint32))
    of_column = _hash(columns, tl.load(seeds + 1).to(tl.uint32)) | 1  # odd, so that no bit of the row is lost
    mixed = of_column[:, None] * of_row[None, :] if TURNED else of_row[:, None] * of_column[None, :]
    return mixed >= threshold


def threshold(chance: float) -> int:
    """Give the hash below which a number is dropped."""
    return round(chance * 2**32)
