"""The end of a residual branch in one kernel, norm(residual + dropout(branch + bias)), and its backward pass.

The end of the embeddings, dropout(norm(sum)), is the same kernel without a branch. Shapes: T tokens, H hidden size.
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
    summed, bias, residual, gain, shift, seeds, out, mean, deviation, tokens, threshold, scale, eps,
    H: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, DROPS: tl.constexpr, BRANCH: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, WIDTH)
    inside = (rows < tokens)[:, None] & (columns < H)[None, :]
    place = rows[:, None] * H + columns[None, :]
    x = tl.load(summed + place, mask=inside, other=0.0).to(tl.float32)
    if BRANCH:
        x += tl.load(bias + columns, mask=columns < H, other=0.0).to(tl.float32)[None, :]
        if DROPS:
            x = tl.where(keeps(rows, columns, seeds, threshold), x * scale, 0.0)
        x += tl.load(residual + place, mask=inside, other=0.0).to(tl.float32)
        x = tl.where(inside, x, 0.0).to(summed.dtype.element_ty)
        tl.store(summed + place, x, mask=inside)  # overwrite the branch: the backward pass needs the sum
        x = x.to(tl.float32)
    center = tl.sum(x, 1) / H
    apart = tl.where(inside, x - center[:, None], 0.0)
    inverse = 1 / tl.sqrt(tl.sum(apart * apart, 1) / H + eps)
    g = tl.load(gain + columns, mask=columns < H, other=0.0).to(tl.float32)
    s = tl.load(shift + columns, mask=columns < H, other=0.0).to(tl.float32)
    normal = apart * inverse[:, None] * g[None, :] + s[None, :]
    if DROPS and not BRANCH:
        normal = tl.where(keeps(rows, columns, seeds, threshold), normal * scale, 0.0)
    tl.store(out + place, normal.to(out.dtype.element_ty), mask=inside)
    tl.store(mean + rows, center, mask=rows < tokens)
    tl.store(deviation + rows, inverse, mask=rows < tokens)


@triton.jit
def _norm_backward(
    gradient, summed, gain, seeds, mean, deviation, to_summed, to_branch, partial, tokens, threshold, scale,
    H: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr, TURNS: tl.constexpr, DROPS: tl.constexpr,
    BRANCH: tl.constexpr,
):  # fmt: skip
    columns = tl.arange(0, WIDTH)
    g = tl.load(gain + columns, mask=columns < H, other=0.0).to(tl.float32)
    of_gain = tl.zeros((ROWS, WIDTH), tl.float32)
    of_shift = tl.zeros((ROWS, WIDTH), tl.float32)
    of_bias = tl.zeros((ROWS, WIDTH), tl.float32)
    for turn in tl.range(TURNS, num_stages=AHEAD):
        rows = (turn * tl.num_programs(0) + tl.program_id(0)) * ROWS + tl.arange(0, ROWS)
        inside = (rows < tokens)[:, None] & (columns < H)[None, :]
        place = rows[:, None] * H + columns[None, :]
        d = tl.load(gradient + place, mask=inside, other=0.0).to(tl.float32)
        if DROPS:
            keep = keeps(rows, columns, seeds, threshold)
            if not BRANCH:
                d = tl.where(keep, d * scale, 0.0)
        x = tl.load(summed + place, mask=inside, other=0.0).to(tl.float32)
        center = tl.load(mean + rows, mask=rows < tokens, other=0.0)
        inverse = tl.load(deviation + rows, mask=rows < tokens, other=0.0)
        normal = tl.where(inside, (x - center[:, None]) * inverse[:, None], 0.0)
        of_gain += d * normal
        of_shift += d
        d = d * g[None, :]
        along = tl.sum(d * normal, 1) / H
        level = tl.sum(d, 1) / H
        d = tl.where(inside, (d - level[:, None] - normal * along[:, None]) * inverse[:, None], 0.0)
        tl.store(to_summed + place, d.to(to_summed.dtype.element_ty), mask=inside)
        if BRANCH:
            if DROPS:
                d = tl.where(keep, d * scale, 0.0)
            tl.store(to_branch + place, d.to(to_branch.dtype.element_ty), mask=inside)
            of_bias += d
    into = partial + tl.program_id(0) * 3 * H + columns
    tl.store(into, tl.sum(of_gain, 0), mask=columns < H)
    tl.store(into + H, tl.sum(of_shift, 0), mask=columns < H)
    tl.store(into + 2 * H, tl.sum(of_bias, 0), mask=columns < H)


def add_and_norm(
    branch: Tensor, bias: Tensor | None, residual: Tensor | None, gain: Tensor, shift: Tensor, seeds: Tensor,
    chance: float, eps: float, out: Tensor, moments: Tensor,
) -> None:  # fmt: skip
    """Write the normalized sum (T, H), and the means and inverse deviations (2, T); overwrite the branch with the sum.

    Without bias and residual, `branch` is the sum itself, and dropout is applied after the norm.
    """
    tokens, hidden = branch.shape
    rows = FORWARD.rows(hidden)
    with on_device(branch):
        _norm_forward[(triton.cdiv(tokens, rows),)](
            branch, bias, residual, gain, shift, seeds, out, moments[0], moments[1], tokens, threshold(chance),
            1 / (1 - chance), eps, H=hidden, ROWS=rows, WIDTH=triton.next_power_of_2(hidden), DROPS=chance > 0,
            BRANCH=residual is not None, num_warps=FORWARD.warps,
        )  # fmt: skip


def backward_programs(tokens: int, hidden: int, device: torch.device) -> int:
    """Return the number of partial sums of the backward pass."""
    return BACKWARD.sharers(tokens, hidden, device)


def add_and_norm_backward(
    gradient: Tensor, summed: Tensor, gain: Tensor, moments: Tensor, seeds: Tensor, chance: float,
    to_branch: Tensor | None, partial: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of the residual (T, H), and write that of the branch to `to_branch`, if given.

    The gradients of gain, shift and bias are written as partial sums (programs, 3H).
    """
    tokens, hidden = summed.shape
    programs = len(partial)
    to_summed = torch.empty_like(summed)
    with on_device(summed):
        _norm_backward[(programs,)](
            gradient, summed, gain, seeds, moments[0], moments[1], to_summed, to_branch, partial, tokens,
            threshold(chance), 1 / (1 - chance), H=hidden, ROWS=BACKWARD.rows(hidden),
            WIDTH=triton.next_power_of_2(hidden), TURNS=BACKWARD.turns(tokens, hidden, programs), DROPS=chance > 0,
            BRANCH=to_branch is not None, num_warps=BACKWARD.warps,
        )  # fmt: skip
    return to_summed


class _Normalize(torch.autograd.Function):
    """dropout(norm(sum))."""

    @staticmethod
    def forward(context: Any, summed: Tensor, gain: Tensor, shift: Tensor, seeds: Tensor, chance: float, eps: float):
        flat = summed.flatten(0, 1)
        out = torch.empty_like(flat)
        moments = torch.empty(2, len(flat), dtype=torch.float32, device=flat.device)
        add_and_norm(flat, None, None, gain, shift, seeds, chance, eps, out, moments)
        context.save_for_backward(flat, gain, moments, seeds)
        context.chance = chance
        return out.view_as(summed)

    @staticmethod
    def backward(context: Any, gradient: Tensor):
        flat, gain, moments, seeds = context.saved_tensors
        tokens, hidden = flat.shape
        partial = moments.new_empty(backward_programs(tokens, hidden, flat.device), 3 * hidden)
        to_out = gradient.contiguous().flatten(0, 1)
        to_summed = add_and_norm_backward(to_out, flat, gain, moments, seeds, context.chance, None, partial)
        to_gain, to_shift, _ = partial.sum(0).to(gain.dtype).view(3, hidden)
        return to_summed.view_as(gradient), to_gain, to_shift, None, None, None


def normalize(summed: Tensor, norm: nn.LayerNorm, seeds: Tensor, chance: float) -> Tensor:
    """Return dropout(norm(summed)) for (B, L, H)."""
    out: Tensor = _Normalize.apply(summed.contiguous(), norm.weight, norm.bias, seeds, chance, norm.eps)  # type: ignore[no-untyped-call]
    return out
