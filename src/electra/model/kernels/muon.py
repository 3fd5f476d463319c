"""Muon's two passes over its matrices, before and after they are made orthogonal.

Shapes: N matrices of M numbers.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.launch import on_device

BLOCK = 4096  # numbers per program
WARPS = 8
LARGEST = tl.constexpr(3.4028234663852886e38)


@triton.jit
def _direct(gradient, means, ahead, squares, scale, bad, momentum, size, blocks, BLOCK: tl.constexpr):
    matrix, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    inner = block * BLOCK + tl.arange(0, BLOCK)
    place, inside = matrix * size + inner, inner < size
    g = tl.load(gradient + place, mask=inside, other=0.0) / tl.load(scale)
    g = tl.where(g == g, tl.minimum(tl.maximum(g, -LARGEST), LARGEST), 0.0)  # as torch.nan_to_num
    mean = tl.load(means + place, mask=inside, other=0.0)
    mean += (g - mean) * (1 - momentum) * (1 - tl.load(bad))
    tl.store(means + place, mean, mask=inside)
    g += (mean - g) * momentum
    tl.store(ahead + place, g.to(ahead.dtype.element_ty), mask=inside)
    tl.store(squares + matrix * blocks + block, tl.sum(g * g, 0))


@triton.jit
def _apply(values, directions, rate, bad, factor, length, decay, numbers, BLOCK: tl.constexpr):
    place = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = place < numbers
    step = tl.load(rate) * factor
    before = tl.load(values + place, mask=inside, other=0.0)
    moved = tl.load(directions + place, mask=inside, other=0.0).to(tl.float32) * (step * length)
    after = before * (1 - step * decay) - moved
    tl.store(values + place, tl.where(tl.load(bad) > 0, before, after), mask=inside)  # also if directions are NaN


def directions(gradient: Tensor, means: Tensor, scale: Tensor, bad: Tensor, momentum: float) -> Tensor:
    """Update the running means (N, rows, columns) of a scaled gradient; return where they lead, of norm 1.

    Nesterov momentum; on a GPU in bf16. If the gradient is `bad` (1), the means stay as they are.
    """
    count, size = len(gradient), gradient[0].numel()
    blocks = triton.cdiv(size, BLOCK)
    ahead = torch.empty_like(gradient, dtype=torch.bfloat16 if gradient.is_cuda else gradient.dtype)
    squares = torch.empty(count, blocks, dtype=torch.float32, device=gradient.device)
    with on_device(gradient):
        _direct[(count, blocks)](
            gradient, means, ahead, squares, scale, bad, momentum, size, blocks, BLOCK=BLOCK, num_warps=WARPS
        )
    norms = squares.sum(1).sqrt_().add_(1e-12)
    return ahead.div_(norms[:, None, None])


def apply(
    values: Tensor, directions: Tensor, rate: Tensor, bad: Tensor, factor: float, length: float, decay: float
) -> None:
    """Decay values and move them against directions, unless the gradient is `bad` (1)."""
    numbers = values.numel()
    with on_device(values):
        _apply[(triton.cdiv(numbers, BLOCK),)](
            values, directions, rate, bad, factor, length, decay, numbers, BLOCK=BLOCK, num_warps=WARPS
        )
