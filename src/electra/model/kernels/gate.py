"""The gated GELU of a feed-forward block, gelu(a) · b for [a, b] = x, and its backward pass.

Shapes: T tokens, F feed-forward size.
"""

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.gelu import PEAK, WIDEST, normal_cdf
from electra.model.kernels.launch import Layout, on_device

LAYOUT = Layout(numbers=2048, warps=4)


@triton.jit
def _gate_forward(x, out, tokens, F: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = (rows < tokens)[:, None] & (columns < F)[None, :]
    place = rows[:, None] * (2 * F) + columns[None, :]
    a = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(x + place + F, mask=inside, other=0.0).to(tl.float32)
    active = a * normal_cdf(a, tl.exp(-0.5 * a * a)) * b
    tl.store(out + rows[:, None] * F + columns[None, :], active.to(out.dtype.element_ty), mask=inside)


@triton.jit
def _gate_backward(gradient, x, to_x, tokens, F: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    rows = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
    columns = tl.program_id(1) * WIDTH + tl.arange(0, WIDTH)
    inside = (rows < tokens)[:, None] & (columns < F)[None, :]
    place = rows[:, None] * (2 * F) + columns[None, :]
    a = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
    b = tl.load(x + place + F, mask=inside, other=0.0).to(tl.float32)
    d = tl.load(gradient + rows[:, None] * F + columns[None, :], mask=inside, other=0.0).to(tl.float32)
    bell = tl.exp(-0.5 * a * a)
    cdf = normal_cdf(a, bell)
    kind = to_x.dtype.element_ty
    tl.store(to_x + place, (d * b * (cdf + a * bell * PEAK)).to(kind), mask=inside)
    tl.store(to_x + place + F, (d * a * cdf).to(kind), mask=inside)


def gate(x: Tensor, out: Tensor) -> None:
    """Write gelu(a) · b (T, F) of x (T, 2F)."""
    _launch(_gate_forward, x, out, shape=out.shape)


def gate_backward(gradient: Tensor, x: Tensor, to_x: Tensor) -> None:
    """Write the gradient of x (T, 2F) from that of the output (T, F)."""
    _launch(_gate_backward, gradient, x, to_x, shape=gradient.shape)


def _launch(kernel: Any, *tensors: Tensor, shape: Sequence[int]) -> None:
    """Launch a kernel over the output (T, F)."""
    tokens, width = shape
    columns = min(WIDEST, max(64, width & -width))  # a power of two that divides the width, if it is not small
    rows = LAYOUT.rows(columns)
    with on_device(tensors[0]):
        kernel[(triton.cdiv(tokens, rows), triton.cdiv(width, columns))](
            *tensors, tokens, F=width, ROWS=rows, WIDTH=columns, num_warps=LAYOUT.warps
        )
