"""Layer norm and what surrounds it in one kernel, and its backward pass.

In post-norm blocks, norm(residual + dropout(branch + bias)) ends a branch. In pre-norm blocks, the sum residual +
branch continues as the next residual, and its norm, which has no shift, begins the next branch.
Shapes: T tokens, H hidden size.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor, nn

from electra.model.kernels.dropout import keeps, threshold
from electra.model.kernels.launch import AHEAD, Layout, on_device

FORWARD = Layout(numbers=2048, warps=4)
BACKWARD = Layout(numbers=2048, warps=2, programs=4)


@triton.jit
def _norm_forward(
    branch, bias, residual, gain, shift, seeds, summed, out, mean, deviation, tokens, threshold, scale, eps,
    H: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, DROPS: tl.constexpr,
):  # fmt: skip
    first = tl.program_id(0) * ROWS
    rows, columns = first + tl.arange(0, ROWS), tl.arange(0, WIDTH)
    inside = (rows < tokens)[:, None] & (columns < H)[None, :]
    begin = first.to(tl.int64) * H  # there may be more than 2³¹ numbers
    place = tl.arange(0, ROWS)[:, None] * H + columns[None, :]
    x = tl.load(branch + begin + place, mask=inside, other=0.0).to(tl.float32)
    if residual is not None:
        if bias is not None:
            x += tl.load(bias + columns, mask=columns < H, other=0.0).to(tl.float32)[None, :]
        if DROPS:
            x = tl.where(keeps(rows, columns, seeds, threshold), x * scale, 0.0)
        x += tl.load(residual + begin + place, mask=inside, other=0.0).to(tl.float32)
        x = x.to(summed.dtype.element_ty)
        tl.store(summed + begin + place, x, mask=inside)
        x = x.to(tl.float32)
    center = tl.sum(x, 1) / H
    apart = tl.where(inside, x - center[:, None], 0.0)
    inverse = 1 / tl.sqrt(tl.sum(apart * apart, 1) / H + eps)
    g = tl.load(gain + columns, mask=columns < H, other=0.0).to(tl.float32)
    normal = apart * inverse[:, None] * g[None, :]
    if shift is not None:
        normal += tl.load(shift + columns, mask=columns < H, other=0.0).to(tl.float32)[None, :]
    if DROPS and residual is None:
        normal = tl.where(keeps(rows, columns, seeds, threshold), normal * scale, 0.0)
    tl.store(out + begin + place, normal.to(out.dtype.element_ty), mask=inside)
    tl.store(mean + rows, center, mask=rows < tokens)
    tl.store(deviation + rows, inverse, mask=rows < tokens)


@triton.jit
def _norm_backward(
    gradient, residual, summed, gain, seeds, mean, deviation, to_summed, to_branch, partial, tokens, threshold, scale,
    H: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr, DROPS: tl.constexpr,
    VECTORS: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, WIDTH)
    place = tl.arange(0, ROWS)[:, None] * H + columns[None, :]
    g = tl.load(gain + columns, mask=columns < H, other=0.0).to(tl.float32)
    of_gain = tl.zeros((ROWS, WIDTH), tl.float32)
    of_shift = tl.zeros((ROWS, WIDTH), tl.float32)
    of_bias = tl.zeros((ROWS, WIDTH), tl.float32)
    for turn in tl.range(TURNS, num_stages=AHEAD):
        first = (turn * tl.num_programs(0) + tl.program_id(0)) * ROWS
        rows, begin = first + tl.arange(0, ROWS), first.to(tl.int64) * H
        inside = (rows < tokens)[:, None] & (columns < H)[None, :]
        d = tl.load(gradient + begin + place, mask=inside, other=0.0).to(tl.float32)
        if DROPS and to_branch is None:
            d = tl.where(keeps(rows, columns, seeds, threshold), d * scale, 0.0)
        x = tl.load(summed + begin + place, mask=inside, other=0.0).to(tl.float32)
        center = tl.load(mean + rows, mask=rows < tokens, other=0.0)
        inverse = tl.load(deviation + rows, mask=rows < tokens, other=0.0)
        normal = tl.where(inside, (x - center[:, None]) * inverse[:, None], 0.0)
        of_gain += d * normal
        of_shift += d
        d = d * g[None, :]
        along = tl.sum(d * normal, 1) / H
        level = tl.sum(d, 1) / H
        d = (d - level[:, None] - normal * along[:, None]) * inverse[:, None]
        if residual is not None:
            d += tl.load(residual + begin + place, mask=inside, other=0.0).to(tl.float32)
        tl.store(to_summed + begin + place, d.to(to_summed.dtype.element_ty), mask=inside)
        if to_branch is not None:
            kept = keeps(rows, columns, seeds, threshold) if DROPS else inside  # without dropout, scale is 1
            d = tl.where(kept, d * scale, 0.0)
            tl.store(to_branch + begin + place, d.to(to_branch.dtype.element_ty), mask=inside)
            of_bias += d
    into = partial + tl.program_id(0) * VECTORS * H + columns
    tl.store(into, tl.sum(of_gain, 0), mask=columns < H)
    if VECTORS > 1:
        tl.store(into + H, tl.sum(of_shift, 0), mask=columns < H)
        tl.store(into + 2 * H, tl.sum(of_bias, 0), mask=columns < H)


def add_and_norm(
    branch: Tensor, residual: Tensor | None, gain: Tensor, eps: float, summed: Tensor, out: Tensor, moments: Tensor,
    bias: Tensor | None = None, shift: Tensor | None = None, seeds: Tensor | None = None, chance: float = 0.0,
) -> None:  # fmt: skip
    """Write residual + dropout(branch + bias) and its norm (T, H), and the means and inverse deviations (2, T).

    Without a residual, the branch is the sum itself, which is not written again, and dropout is applied after the norm.
    """
    tokens, hidden = branch.shape
    rows = FORWARD.rows(hidden)
    with on_device(branch):
        _norm_forward[(triton.cdiv(tokens, rows),)](
            branch, bias, residual, gain, shift, seeds, summed, out, moments[0], moments[1], tokens, threshold(chance),
            1 / (1 - chance), eps, H=hidden, ROWS=rows, WIDTH=triton.next_power_of_2(hidden), DROPS=chance > 0,
            num_warps=FORWARD.warps,
        )  # fmt: skip


def backward_programs(tokens: int, hidden: int, device: torch.device) -> int:
    """Return the number of partial sums of the backward pass."""
    return BACKWARD.sharers(tokens, hidden, device)


def add_and_norm_backward(
    gradient: Tensor, residual: Tensor | None, summed: Tensor, gain: Tensor, moments: Tensor, to_summed: Tensor,
    partial: Tensor, to_branch: Tensor | None = None, seeds: Tensor | None = None, chance: float = 0.0,
) -> None:  # fmt: skip
    """Write the gradient of the sum (T, H), to which a gradient by way of the residual is added, and the branch's.

    The gradients of gain, shift and bias are written as partial sums (programs, 3H), or the gain's only (programs, H).
    """
    tokens, hidden = summed.shape
    programs, width = partial.shape
    with on_device(summed):
        _norm_backward[(programs,)](
            gradient, residual, summed, gain, seeds, moments[0], moments[1], to_summed, to_branch, partial, tokens,
            threshold(chance), 1 / (1 - chance), H=hidden, ROWS=BACKWARD.rows(hidden),
            WIDTH=triton.next_power_of_2(hidden), TURNS=BACKWARD.turns(tokens, hidden, programs), DROPS=chance > 0,
            VECTORS=width // hidden, num_warps=BACKWARD.warps,
        )  # fmt: skip


class _Normalize(torch.autograd.Function):
    """dropout(norm(x))."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, gain: Tensor, shift: Tensor | None, eps: float, seeds: Tensor | None, chance: float
    ):
        out = torch.empty_like(x)
        moments = torch.empty(2, len(x), dtype=torch.float32, device=x.device)
        add_and_norm(x, None, gain, eps, x, out, moments, None, shift, seeds, chance)
        context.save_for_backward(x, gain, moments, seeds)
        context.chance, context.vectors = chance, 1 if shift is None else 3
        return out

    @staticmethod
    def backward(context: Any, gradient: Tensor):
        x, gain, moments, seeds = context.saved_tensors
        (tokens, hidden), vectors = x.shape, context.vectors
        to_x = torch.empty_like(x)
        partial = moments.new_empty(backward_programs(tokens, hidden, x.device), vectors * hidden)
        to_out = gradient.contiguous()
        add_and_norm_backward(to_out, None, x, gain, moments, to_x, partial, None, seeds, context.chance)
        found = partial.sum(0).to(gain.dtype).view(vectors, hidden)
        return to_x, found[0], found[1] if vectors > 1 else None, None, None, None


def normalize(states: Tensor, norm: nn.LayerNorm, seeds: Tensor | None = None, chance: float = 0.0) -> Tensor:
    """Return dropout(norm(states)) of (…, H)."""
    x = states.contiguous().view(-1, states.size(-1))
    out: Tensor = _Normalize.apply(x, norm.weight, norm.bias, norm.eps, seeds, chance)  # type: ignore[no-untyped-call]
    return out.view_as(states)
