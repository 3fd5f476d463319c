"""Rotary positions: queries and keys are rotated by their positions, their gradients are rotated back.

Positions count from the beginning of a text. Queries and keys lie in the layout of the projection, (B, L, 3, heads, D).
Shapes: B sequences, L tokens, D head size.
"""

import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.launch import on_device

TOKENS = 16  # per program
WARPS = 4
Table = tuple[Tensor, Tensor]  # cosines and sines (positions, D / 2)


@triton.jit
def _angles(row, pair, bounds, cosines, sines, sequence, tokens, D: tl.constexpr, TEXTS: tl.constexpr):
    """Return the cosines and sines for some tokens of a sequence and some pairs of numbers."""
    real, at = row < tokens, row
    if TEXTS:
        at = row - tl.load(bounds + sequence * tokens + row, mask=real, other=0)
    place = at[:, None] * (D // 2) + pair[None, :]
    cos = tl.load(cosines + place, mask=real[:, None], other=0.0)
    sin = tl.load(sines + place, mask=real[:, None], other=0.0)
    return cos.to(tl.float32), sin.to(tl.float32)


@triton.jit
def load_rotated(
    table, place, width, row, bounds, cosines, sines, sequence, tokens, ROWS: tl.constexpr, D: tl.constexpr,
    TEXTS: tl.constexpr,
):  # fmt: skip
    """Load a head's queries (ROWS, D), which begin at `place` (ROWS, 1), and its keys, `width` further; rotate both."""
    pair, inside = tl.arange(0, D // 2), (row < tokens)[:, None]
    cos, sin = _angles(row, pair, bounds, cosines, sines, sequence, tokens, D, TEXTS)
    at = table + place + pair[None, :]
    return _load_one(at, inside, cos, sin, ROWS, D), _load_one(at + width, inside, cos, sin, ROWS, D)


@triton.jit
def _load_one(at, inside, cos, sin, ROWS: tl.constexpr, D: tl.constexpr):
    first = tl.load(at, mask=inside, other=0.0)
    second = tl.load(at + D // 2, mask=inside, other=0.0)
    one, other = first.to(tl.float32), second.to(tl.float32)
    both = tl.join((one * cos - other * sin).to(first.dtype), (other * cos + one * sin).to(first.dtype))
    return tl.reshape(tl.permute(both, (0, 2, 1)), (ROWS, D))


@triton.jit
def store_rotated_back(
    table, place, gradient, row, bounds, cosines, sines, sequence, tokens, ROWS: tl.constexpr, D: tl.constexpr,
    TEXTS: tl.constexpr,
):  # fmt: skip
    """Rotate the gradient (ROWS, D) of rotated queries or keys back, and store it."""
    pair, inside = tl.arange(0, D // 2), (row < tokens)[:, None]
    first, second = tl.split(tl.permute(tl.reshape(gradient, (ROWS, 2, D // 2)), (0, 2, 1)))
    cos, sin = _angles(row, pair, bounds, cosines, sines, sequence, tokens, D, TEXTS)
    into = table + place + pair[None, :]
    tl.store(into, (first * cos + second * sin).to(table.dtype.element_ty), mask=inside)
    tl.store(into + D // 2, (second * cos - first * sin).to(table.dtype.element_ty), mask=inside)


@triton.jit
def _rotate(
    projected, bounds, cosines, sines, tokens, HEADS: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr,
    TEXTS: tl.constexpr,
):  # fmt: skip
    sequence = tl.program_id(0).to(tl.int64)
    row, pair = tl.program_id(1) * ROWS + tl.arange(0, ROWS), tl.arange(0, D // 2)
    inside = (row < tokens)[:, None]
    kind = projected.dtype.element_ty
    cos, sin = _angles(row, pair, bounds, cosines, sines, sequence, tokens, D, TEXTS)
    place = (sequence * tokens + row)[:, None] * (3 * HEADS * D) + pair[None, :]
    for head in tl.static_range(2 * HEADS):  # queries, then keys
        at = projected + place + head * D
        first = tl.load(at, mask=inside, other=0.0).to(tl.float32)
        second = tl.load(at + D // 2, mask=inside, other=0.0).to(tl.float32)
        tl.store(at, (first * cos - second * sin).to(kind), mask=inside)
        tl.store(at + D // 2, (second * cos + first * sin).to(kind), mask=inside)


def rotate(projected: Tensor, heads: int, bounds: Tensor | None, table: Table) -> None:
    """Rotate the queries and keys in (B, L, 3H) in place; `bounds` (2, B, L) are those of texts."""
    sequences, tokens, width = projected.shape
    with on_device(projected):
        _rotate[(sequences, triton.cdiv(tokens, TOKENS))](
            projected, bounds, *table, tokens, HEADS=heads, D=width // 3 // heads, ROWS=TOKENS,
            TEXTS=bounds is not None, num_warps=WARPS,
        )  # fmt: skip
