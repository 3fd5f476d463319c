"""Rotary positions: queries and keys are rotated in place, in the layout of the projection (T, 3, heads, D).

Shapes: T tokens, D head size.
"""

import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.launch import on_device

TOKENS = 16  # per program
WARPS = 4


@triton.jit
def _rotate(
    projected, positions, cosines, sines, tokens, length, sign,
    heads: tl.constexpr, D: tl.constexpr, ROWS: tl.constexpr, TEXTS: tl.constexpr,
):  # fmt: skip
    rows, pair = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D // 2)
    inside = (rows < tokens)[:, None]
    at = tl.load(positions + rows, mask=rows < tokens, other=0) if TEXTS else rows % length
    angle = at[:, None] * (D // 2) + pair[None, :]
    cos = tl.load(cosines + angle, mask=inside, other=0.0)
    sin = tl.load(sines + angle, mask=inside, other=0.0) * sign
    place = rows.to(tl.int64)[:, None] * (3 * heads * D) + pair[None, :]
    for head in tl.static_range(2 * heads):  # queries, then keys
        first = tl.load(projected + place + head * D, mask=inside, other=0.0).to(tl.float32)
        second = tl.load(projected + place + head * D + D // 2, mask=inside, other=0.0).to(tl.float32)
        kind = projected.dtype.element_ty
        tl.store(projected + place + head * D, (first * cos - second * sin).to(kind), mask=inside)
        tl.store(projected + place + head * D + D // 2, (second * cos + first * sin).to(kind), mask=inside)


def rotate(
    projected: Tensor, heads: int, positions: Tensor | None, table: tuple[Tensor, Tensor], back: bool = False
) -> None:
    """Rotate the queries and keys in (B, L, 3H) by their positions (B, L), by default 0 to L - 1, or back again.

    `table` holds the cosines and sines (positions, D / 2).
    """
    sequences, length, width = projected.shape
    tokens = sequences * length
    with on_device(projected):
        _rotate[(triton.cdiv(tokens, TOKENS),)](
            projected, positions, *table, tokens, length, -1.0 if back else 1.0, heads=heads, D=width // 3 // heads,
            ROWS=TOKENS, TEXTS=positions is not None, num_warps=WARPS,
        )  # fmt: skip
