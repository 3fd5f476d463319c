"""Kernels over the logits of masked tokens: loss and most likely token in one pass, sampling in another.

Nothing as large as the logits is written except their gradient. Shapes: N masked tokens, V vocabulary.
"""

from typing import Any

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.launch import on_device

BLOCK = 4096  # logits that a program processes at a time
ALIGNED = 64  # the vocabulary is padded to a multiple of this: otherwise matrix products are several times slower
LOWEST = tl.constexpr(-1e30)  # replaces minus infinity, which cannot be subtracted from itself
EXTRA = 8  # columns added for the bias: one, padded to the alignment of matrix products


@triton.jit
def _cross_entropy(
    logits, stride, targets, nll, log_sum, best, V: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    most = -float("inf")
    total = 0.0
    winner = 0
    for block in range(BLOCKS):
        column = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(logits + row * stride + column, mask=column < V, other=-float("inf")).to(tl.float32)
        here = tl.max(x, 0)
        winner = tl.where(here > most, block, winner)
        higher = tl.maximum(most, here)
        total = total * tl.exp(most - higher) + tl.sum(tl.exp(x - higher), 0)
        most = higher
    column = winner * BLOCK + tl.arange(0, BLOCK)  # only the winning block is searched for its maximum
    x = tl.load(logits + row * stride + column, mask=column < V, other=-float("inf")).to(tl.float32)
    likeliest = tl.min(tl.where(x == most, column, V - 1), 0)
    sums = most + tl.log(total)
    at_target = tl.load(logits + row * stride + tl.load(targets + row)).to(tl.float32)
    tl.store(nll + row, sums - at_target)
    tl.store(log_sum + row, sums)
    tl.store(best + row, likeliest)


@triton.jit
def _cross_entropy_backward(
    logits, stride, targets, log_sum, gradient, to_logits, V: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    d = tl.load(gradient + row)
    sums = tl.load(log_sum + row)
    target = tl.load(targets + row)
    for block in range(BLOCKS):
        column = block * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(logits + row * stride + column, mask=column < V, other=0.0).to(tl.float32)
        share = tl.where(column < V, tl.exp(x - sums) - (column == target).to(tl.float32), 0.0)
        tl.store(to_logits + row * stride + column, (share * d).to(to_logits.dtype.element_ty), mask=column < stride)


@triton.jit
def _scaled_logits(logits, stride, row, column, forbidden, sharpness, V: tl.constexpr, FORBIDS: tl.constexpr):
    """Load a block of logits divided by the temperature, minus infinity where forbidden."""
    x = tl.load(logits + row * stride + column, mask=column < V, other=-float("inf")).to(tl.float32) * sharpness
    if FORBIDS:
        x = tl.where(column == tl.load(forbidden + row), -float("inf"), x)
    return x


@triton.jit
def _sample(
    logits, stride, uniform, forbidden, sampled, sharpness,
    V: tl.constexpr, BLOCK: tl.constexpr, BLOCKS: tl.constexpr, COUNT: tl.constexpr, FORBIDS: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    blocks = tl.arange(0, COUNT)
    tops = tl.full((COUNT,), -float("inf"), tl.float32)  # maximum of each block
    sums = tl.zeros((COUNT,), tl.float32)  # sum of the exponentials of each block, relative to its maximum
    for block in range(BLOCKS):
        column = block * BLOCK + tl.arange(0, BLOCK)
        x = _scaled_logits(logits, stride, row, column, forbidden, sharpness, V, FORBIDS)
        top = tl.max(x, 0)
        tops = tl.where(blocks == block, top, tops)
        sums = tl.where(blocks == block, tl.sum(tl.exp(x - tl.maximum(top, LOWEST)), 0), sums)
    most = tl.max(tops, 0)
    shares = sums * tl.exp(tops - most)
    goal = tl.load(uniform + row) * tl.sum(shares, 0)
    before = tl.sum(tl.where(blocks[None, :] < blocks[:, None], shares[None, :], 0.0), 1)  # exclusive cumulative sum
    chosen = tl.minimum(tl.sum((before + shares <= goal).to(tl.int32), 0), BLOCKS - 1)
    passed = tl.sum(tl.where(blocks == chosen, before, 0.0), 0)
    column = chosen * BLOCK + tl.arange(0, BLOCK)  # only the block that contains the goal is loaded again
    share = tl.exp(_scaled_logits(logits, stride, row, column, forbidden, sharpness, V, FORBIDS) - most)
    below = chosen * BLOCK + tl.sum((passed + tl.cumsum(share, 0) <= goal).to(tl.int32), 0)
    tl.store(sampled + row, tl.minimum(below, V - 1).to(tl.int64))


class _Logits(torch.autograd.Function):
    """hidden · wordsᵀ + bias, padded to sizes that are fast to multiply.

    The bias is an extra column of both factors, so that one product computes its gradient and that of the words.
    """

    @staticmethod
    def forward(context: Any, hidden: Tensor, words: Tensor, bias: Tensor) -> Tensor:
        (vocabulary, width), rows = words.shape, _aligned(len(words))
        hidden = torch.cat([hidden, hidden.new_ones(len(hidden), EXTRA)], dim=1)
        table = words.new_zeros(rows, width + EXTRA)
        table[:vocabulary, :width] = words
        table[:vocabulary, width] = bias
        context.save_for_backward(hidden, table)
        context.width = width
        return (hidden @ table.t())[:, :vocabulary]

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        hidden, table = context.saved_tensors
        vocabulary, width, rows = gradient.size(1), context.width, len(table)
        if gradient.stride() == (rows, 1):  # from `_cross_entropy_backward`, which pads rows with zeros
            gradient = gradient.as_strided((len(gradient), rows), (rows, 1))
        else:
            gradient = F.pad(gradient, (0, rows - vocabulary))
        to_table = gradient.t() @ hidden
        to_words, to_bias = to_table[:vocabulary, :width].contiguous(), to_table[:vocabulary, width].contiguous()
        return (gradient @ table)[:, :width].contiguous(), to_words, to_bias


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        rows, vocabulary = logits.shape
        nll, log_sum = (torch.empty(rows, dtype=torch.float32, device=logits.device) for _ in range(2))
        best = torch.empty_like(targets)
        with on_device(logits):
            _cross_entropy[(rows,)](logits, logits.stride(0), targets, nll, log_sum, best, **_blocks(vocabulary))
        context.save_for_backward(logits, targets, log_sum)
        context.mark_non_differentiable(best)
        return nll, best

    @staticmethod
    def backward(context: Any, gradient: Tensor, _: Any) -> tuple[Tensor, None]:
        logits, targets, log_sum = context.saved_tensors
        to_logits = empty_rows(logits, len(logits), logits.stride(0))[:, : logits.size(1)]  # same row stride
        with on_device(logits):
            _cross_entropy_backward[(len(logits),)](
                logits, logits.stride(0), targets, log_sum, gradient.contiguous(), to_logits, **_blocks(logits.size(1))
            )
        return to_logits, None


def empty_rows(like: Tensor, rows: int, columns: int) -> Tensor:
    """Allocate rows for a kernel to write to."""
    return like.new_empty(rows, columns)


def logits(hidden: Tensor, words: Tensor, bias: Tensor) -> Tensor:
    """Return the logits (B, N, V) of hidden states (B, N, E): hidden · wordsᵀ + bias."""
    rows: Tensor = _Logits.apply(hidden.flatten(0, 1), words, bias)  # type: ignore[no-untyped-call]
    return rows.view(*hidden.shape[:2], -1)


def cross_entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's (N,) negative log-likelihood of its target, and its most likely token."""
    found: tuple[Tensor, Tensor] = _CrossEntropy.apply(logits, targets.contiguous())  # type: ignore[no-untyped-call]
    return found


def sample(logits: Tensor, uniform: Tensor, temperature: float, forbidden: Tensor | None) -> Tensor:
    """Sample a token (N,) from each row by inverting its cumulative distribution at a uniform number."""
    sampled = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    banned = None if forbidden is None else forbidden.contiguous()
    blocks = _blocks(logits.size(1))
    with on_device(logits):
        _sample[(len(logits),)](
            logits, logits.stride(0), uniform.contiguous(), banned, sampled, 1 / temperature, **blocks,
            COUNT=triton.next_power_of_2(blocks["BLOCKS"]), FORBIDS=banned is not None,
        )  # fmt: skip
    return sampled


def _aligned(width: int) -> int:
    padded: int = triton.cdiv(width, ALIGNED) * ALIGNED
    return padded


def _blocks(vocabulary: int) -> dict[str, int]:
    size = min(BLOCK, max(ALIGNED, triton.next_power_of_2(vocabulary)))  # includes the padding of a row
    return {"V": vocabulary, "BLOCK": size, "BLOCKS": triton.cdiv(vocabulary, size)}
