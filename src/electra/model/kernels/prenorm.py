"""Layer norm without a bias: the sum of a residual and a branch ahead of the next branch, and its backward pass.

Shapes: T tokens, H hidden size.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.launch import AHEAD, Layout, on_device

FORWARD = Layout(numbers=2048, warps=4)
BACKWARD = Layout(numbers=2048, warps=2, programs=4)


@triton.jit
def _prenorm_forward(
    x, branch, gain, summed, out, mean, deviation, tokens, eps,
    H: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, ADDS: tl.constexpr,
):  # fmt: skip
    rows, columns = (tl.program_id(0) * ROWS + tl.arange(0, ROWS)).to(tl.int64), tl.arange(0, WIDTH)
    inside = (rows < tokens)[:, None] & (columns < H)[None, :]
    place = rows[:, None] * H + columns[None, :]
    v = tl.load(x + place, mask=inside, other=0.0)
    if ADDS:
        v = (v.to(tl.float32) + tl.load(branch + place, mask=inside, other=0.0).to(tl.float32)).to(v.dtype)
        tl.store(summed + place, v, mask=inside)
    v = v.to(tl.float32)
    g = tl.load(gain + columns, mask=columns < H, other=0.0).to(tl.float32)
    center = tl.sum(v, 1) / H
    apart = tl.where(inside, v - center[:, None], 0.0)
    inverse = 1 / tl.sqrt(tl.sum(apart * apart, 1) / H + eps)
    normal = apart * inverse[:, None] * g[None, :]
    tl.store(out + place, normal.to(out.dtype.element_ty), mask=inside)
    tl.store(mean + rows, center, mask=rows < tokens)
    tl.store(deviation + rows, inverse, mask=rows < tokens)


@triton.jit
def _prenorm_backward(
    gradient, residual, x, gain, mean, deviation, to_x, partial, tokens,
    H: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr, ADDS: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, WIDTH)
    g = tl.load(gain + columns, mask=columns < H, other=0.0).to(tl.float32)
    of_gain = tl.zeros((ROWS, WIDTH), tl.float32)
    for turn in tl.range(TURNS, num_stages=AHEAD):
        rows = ((turn * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)).to(tl.int64)
        inside = (rows < tokens)[:, None] & (columns < H)[None, :]
        place = rows[:, None] * H + columns[None, :]
        d = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        v = tl.load(x + place, mask=inside, other=0.0).to(tl.float32)
        center = tl.load(mean + rows, mask=rows < tokens, other=0.0)
        inverse = tl.load(deviation + rows, mask=rows < tokens, other=0.0)
        normal = tl.where(inside, (v - center[:, None]) * inverse[:, None], 0.0)
        of_gain += d * normal
        d = d * g[None, :]
        along = tl.sum(d * normal, 1) / H
        level = tl.sum(d, 1) / H
        d = (d - level[:, None] - normal * along[:, None]) * inverse[:, None]
        if ADDS:
            d += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(to_x + place, d.to(to_x.dtype.element_ty), mask=inside)
    tl.store(partial + tl.program_id(0) * H + columns, tl.sum(of_gain, 0), mask=columns < H)


def add_and_prenorm(
    x: Tensor, branch: Tensor | None, gain: Tensor, eps: float, summed: Tensor | None, out: Tensor, moments: Tensor
) -> None:
    """Write x + branch and its norm, both (T, H), and the means and inverse deviations (2, T); or the norm of x."""
    tokens, hidden = x.shape
    rows = FORWARD.rows(hidden)
    with on_device(x):
        _prenorm_forward[(triton.cdiv(tokens, rows),)](
            x, branch, gain, summed, out, moments[0], moments[1], tokens, eps, H=hidden, ROWS=rows,
            WIDTH=triton.next_power_of_2(hidden), ADDS=branch is not None, num_warps=FORWARD.warps,
        )  # fmt: skip


def backward_programs(tokens: int, hidden: int, device: torch.device) -> int:
    """Return the number of partial sums of the backward pass."""
    return BACKWARD.sharers(tokens, hidden, device)


def prenorm_backward(
    gradient: Tensor, residual: Tensor | None, x: Tensor, gain: Tensor, moments: Tensor, to_x: Tensor, partial: Tensor
) -> None:
    """Write the gradient of x (T, H), the residual's included, and partial sums (programs, H) of the gain's."""
    tokens, hidden = x.shape
    programs = len(partial)
    with on_device(x):
        _prenorm_backward[(programs,)](
            gradient, residual, x, gain, moments[0], moments[1], to_x, partial, tokens, H=hidden,
            ROWS=BACKWARD.rows(hidden), WIDTH=triton.next_power_of_2(hidden),
            TURNS=BACKWARD.turns(tokens, hidden, programs), ADDS=residual is not None, num_warps=BACKWARD.warps,
        )  # fmt: skip


class _Prenorm(torch.autograd.Function):
    """norm(x) · gain."""

    @staticmethod
    def forward(context: Any, x: Tensor, gain: Tensor, eps: float):
        out = torch.empty_like(x)
        moments = torch.empty(2, len(x), dtype=torch.float32, device=x.device)
        add_and_prenorm(x, None, gain, eps, None, out, moments)
        context.save_for_backward(x, gain, moments)
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor):
        x, gain, moments = context.saved_tensors
        to_x = torch.empty_like(x)
        partial = moments.new_empty(backward_programs(len(x), x.size(1), x.device), x.size(1))
        prenorm_backward(gradient.contiguous(), None, x, gain, moments, to_x, partial)
        return to_x, partial.sum(0).to(gain.dtype), None


def normalize(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Return norm(x) · gain of (…, H)."""
    out: Tensor = _Prenorm.apply(x.contiguous().view(-1, x.size(-1)), gain, eps)  # type: ignore[no-untyped-call]
    return out.view_as(x)
