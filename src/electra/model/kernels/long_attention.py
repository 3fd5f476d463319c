"""Attention of longer sequences: a head's scores are computed block by block and never written.

The layout and the names are those of `attention`, which is faster where all scores of a head fit on the chip.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.dropout import keeps, threshold
from electra.model.kernels.launch import on_device, sum_rows

BLOCK = 64  # queries or keys at a time
WARPS = 4


@triton.jit
def _part(table, sequence, tokens, row, head, width, D: tl.constexpr):
    """Load some tokens' numbers of one head."""
    place = (sequence * tokens + row)[:, None] * width + head * D + tl.arange(0, D)[None, :]
    return tl.load(table + place, mask=(row < tokens)[:, None], other=0.0)


@triton.jit
def _scores(q, k, row, column, texts, sequence, tokens, scale, TEXTS: tl.constexpr, PRECISION: tl.constexpr):
    """Give the scores of some queries and some keys, far below zero where a token is not seen."""
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION) * scale
    seen = (column < tokens)[None, :]
    if TEXTS:
        of_query = tl.load(texts + sequence * tokens + row, mask=row < tokens, other=-1)
        of_key = tl.load(texts + sequence * tokens + column, mask=column < tokens, other=-1)
        seen = seen & (of_query[:, None] == of_key[None, :])
    return tl.where(seen, scores, -1.0e30)


@triton.jit
def _long_forward(
    projected, texts, seeds, out, log_sum, tokens, heads, threshold, scale, keep_scale,
    BLOCKS: tl.constexpr, SIZE: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr, DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head, width = tl.program_id(0) // heads, tl.program_id(0) % heads, heads * D
    row = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    at = tl.program_id(0) * tokens + row
    q = _part(projected, sequence, tokens, row, head, 3 * width, D)
    most = tl.full((SIZE,), -float("inf"), tl.float32)
    total = tl.zeros((SIZE,), tl.float32)
    mixed = tl.zeros((SIZE, D), tl.float32)
    for block in range(BLOCKS):
        column = block * SIZE + tl.arange(0, SIZE)
        k = _part(projected + width, sequence, tokens, column, head, 3 * width, D)
        v = _part(projected + 2 * width, sequence, tokens, column, head, 3 * width, D)
        scores = _scores(q, k, row, column, texts, sequence, tokens, scale, TEXTS, PRECISION)
        higher = tl.maximum(most, tl.max(scores, 1))
        share = tl.exp(scores - higher[:, None])
        fade = tl.exp(most - higher)
        total = total * fade + tl.sum(share, 1)
        if DROPS:
            share = tl.where(keeps(at, column, seeds, threshold), share * keep_scale, 0.0)
        mixed = mixed * fade[:, None] + tl.dot(share.to(v.dtype), v, input_precision=PRECISION)
        most = higher
    place = (sequence * tokens + row)[:, None] * width + head * D + tl.arange(0, D)[None, :]
    tl.store(out + place, (mixed / total[:, None]).to(out.dtype.element_ty), mask=(row < tokens)[:, None])
    tl.store(log_sum + at, most + tl.log(total), mask=row < tokens)


@triton.jit
def _shares(
    q, k, v, d, mixed, row, column, texts, seeds, log_sum, sequence, tokens, threshold, scale, keep_scale,
    TEXTS: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Give the shares that values were mixed by, and the gradient of the scores."""
    at = tl.program_id(0) * tokens + row
    scores = _scores(q, k, row, column, texts, sequence, tokens, scale, TEXTS, PRECISION)
    sums = tl.load(log_sum + at, mask=row < tokens, other=0.0)
    share = tl.where((row < tokens)[:, None], tl.exp(scores - sums[:, None]), 0.0)
    to_share = tl.dot(d, tl.trans(v), input_precision=PRECISION)
    used = share
    if DROPS:
        keep = keeps(at, column, seeds, threshold)
        used = tl.where(keep, share * keep_scale, 0.0)
        to_share = tl.where(keep, to_share * keep_scale, 0.0)
    along = tl.sum(d.to(tl.float32) * mixed.to(tl.float32), 1)
    to_scores = share * (to_share - along[:, None]) * scale
    return used.to(q.dtype), to_scores.to(q.dtype)


@triton.jit
def _to_keys_and_values(
    projected, texts, seeds, out, log_sum, gradient, to_projected, partial, tokens, heads, threshold, scale, keep_scale,
    BLOCKS: tl.constexpr, SIZE: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr, DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head, width = tl.program_id(0) // heads, tl.program_id(0) % heads, heads * D
    column = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    k = _part(projected + width, sequence, tokens, column, head, 3 * width, D)
    v = _part(projected + 2 * width, sequence, tokens, column, head, 3 * width, D)
    to_k = tl.zeros((SIZE, D), tl.float32)
    to_v = tl.zeros((SIZE, D), tl.float32)
    for block in range(BLOCKS):
        row = block * SIZE + tl.arange(0, SIZE)
        q = _part(projected, sequence, tokens, row, head, 3 * width, D)
        d = _part(gradient, sequence, tokens, row, head, width, D)
        mixed = _part(out, sequence, tokens, row, head, width, D)
        used, to_scores = _shares(
            q, k, v, d, mixed, row, column, texts, seeds, log_sum, sequence, tokens, threshold, scale, keep_scale,
            TEXTS, DROPS, PRECISION,
        )  # fmt: skip
        to_v += tl.dot(tl.trans(used), d, input_precision=PRECISION)
        to_k += tl.dot(tl.trans(to_scores), q, input_precision=PRECISION)
    inner, real = tl.arange(0, D), (column < tokens)[:, None]
    place = (sequence * tokens + column)[:, None] * (3 * width) + head * D + inner[None, :]
    tl.store(to_projected + width + place, to_k.to(to_projected.dtype.element_ty), mask=real)
    tl.store(to_projected + 2 * width + place, to_v.to(to_projected.dtype.element_ty), mask=real)
    into = partial + (sequence * BLOCKS + tl.program_id(1)) * 3 * width + head * D + inner
    tl.store(into + width, tl.sum(to_k, 0))
    tl.store(into + 2 * width, tl.sum(to_v, 0))


@triton.jit
def _to_queries(
    projected, texts, seeds, out, log_sum, gradient, to_projected, partial, tokens, heads, threshold, scale, keep_scale,
    BLOCKS: tl.constexpr, SIZE: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr, DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head, width = tl.program_id(0) // heads, tl.program_id(0) % heads, heads * D
    row = tl.program_id(1) * SIZE + tl.arange(0, SIZE)
    q = _part(projected, sequence, tokens, row, head, 3 * width, D)
    d = _part(gradient, sequence, tokens, row, head, width, D)
    mixed = _part(out, sequence, tokens, row, head, width, D)
    to_q = tl.zeros((SIZE, D), tl.float32)
    for block in range(BLOCKS):
        column = block * SIZE + tl.arange(0, SIZE)
        k = _part(projected + width, sequence, tokens, column, head, 3 * width, D)
        v = _part(projected + 2 * width, sequence, tokens, column, head, 3 * width, D)
        _, to_scores = _shares(
            q, k, v, d, mixed, row, column, texts, seeds, log_sum, sequence, tokens, threshold, scale, keep_scale,
            TEXTS, DROPS, PRECISION,
        )  # fmt: skip
        to_q += tl.dot(to_scores, k, input_precision=PRECISION)
    inner = tl.arange(0, D)
    place = (sequence * tokens + row)[:, None] * (3 * width) + head * D + inner[None, :]
    tl.store(to_projected + place, to_q.to(to_projected.dtype.element_ty), mask=(row < tokens)[:, None])
    tl.store(partial + (sequence * BLOCKS + tl.program_id(1)) * 3 * width + head * D + inner, tl.sum(to_q, 0))


def attend(projected: Tensor, heads: int, texts: Tensor | None, seeds: Tensor, chance: float) -> tuple[Tensor, Tensor]:
    """Mix (B, L, 3H) projected states as (B, L, H) where `texts` (B, L) agree; also give the scores' log-sums."""
    sequences, tokens, triple = projected.shape
    out = projected.new_empty(sequences, tokens, triple // 3)
    log_sum = torch.empty(sequences * heads, tokens, dtype=torch.float32, device=projected.device)
    blocks = triton.cdiv(tokens, BLOCK)
    with on_device(projected):
        _long_forward[(sequences * heads, blocks)](
            projected, texts, seeds, out, log_sum, tokens, heads, *_numbers(triple // 3 // heads, chance),
            **_shape(projected, heads, texts, chance), num_warps=WARPS,
        )  # fmt: skip
    return out, log_sum


def attend_backward(
    gradient: Tensor, projected: Tensor, out: Tensor, log_sum: Tensor, heads: int, texts: Tensor | None, seeds: Tensor,
    chance: float,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Give the gradient of the projected states (B, L, 3H), and its sum over all tokens (3H,)."""
    sequences, tokens, triple = projected.shape
    blocks = triton.cdiv(tokens, BLOCK)
    to_projected = torch.empty_like(projected)
    partial = torch.empty(sequences * blocks, triple, dtype=torch.float32, device=projected.device)
    with on_device(projected):
        for kernel in (_to_keys_and_values, _to_queries):
            kernel[(sequences * heads, blocks)](
                projected, texts, seeds, out, log_sum, gradient, to_projected, partial, tokens, heads,
                *_numbers(triple // 3 // heads, chance), **_shape(projected, heads, texts, chance), num_warps=WARPS,
            )  # fmt: skip
    return to_projected, sum_rows(partial, projected.dtype)


def _numbers(size: int, chance: float) -> tuple[int, float, float]:
    return threshold(chance), size**-0.5, 1 / (1 - chance)


def _shape(projected: Tensor, heads: int, texts: Tensor | None, chance: float) -> dict[str, object]:
    return {
        "BLOCKS": triton.cdiv(projected.size(1), BLOCK),
        "SIZE": BLOCK,
        "D": projected.size(2) // 3 // heads,
        "TEXTS": texts is not None,
        "DROPS": chance > 0,
        "PRECISION": "ieee" if projected.dtype == torch.float32 else "tf32",
    }
