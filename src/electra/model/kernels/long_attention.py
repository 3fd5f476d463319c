"""Attention for longer sequences: the scores of a head are computed block by block and never written to memory.

Layout and names are those of `attention`, which is faster if all scores of a head fit on the chip.
"""

import sys
from types import ModuleType
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels import SHORT, attention
from electra.model.kernels.attention import (
    LN_2,
    UNSEEN,
    Drop,
    Sight,
    flags,
    numbers,
    rotation,
    seen,
    span,
    store_gradient,
)
from electra.model.kernels.dropout import keeps
from electra.model.kernels.launch import on_device
from electra.model.kernels.rotary import rotate


class Blocks(NamedTuple):
    """Queries and keys that a program processes at a time; the values in use are the fastest measured on an H200."""

    queries: int
    keys: int
    warps: int


class Cut(NamedTuple):
    """The blocks of the three kernels; the backward pass has `share` queries, or keys and values, per program."""

    share: int
    forward: Blocks
    to_queries: Blocks
    to_keys_and_values: Blocks


WHOLE = Cut(128, forward=Blocks(128, 128, 4), to_queries=Blocks(128, 64, 4), to_keys_and_values=Blocks(32, 128, 4))
NEAR = Cut(64, forward=Blocks(64, 32, 4), to_queries=Blocks(64, 32, 4), to_keys_and_values=Blocks(32, 64, 4))


@triton.jit
def _part(table, sequence, tokens, row, head, width, D: tl.constexpr):
    """Load one head's numbers for some tokens."""
    place = (sequence * tokens + row)[:, None] * width + head * D + tl.arange(0, D)[None, :]
    return tl.load(table + place, mask=(row < tokens)[:, None], other=0.0)


@triton.jit
def _long_forward(
    projected, bounds, seeds, out, log_sum, sequences, tokens, heads, threshold, bits, keep_scale,
    QUERIES: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr, REACH: tl.constexpr,
    RAGGED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head, width = tl.program_id(0) // heads, tl.program_id(0) % heads, heads * D
    row = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    at = tl.program_id(0) * tokens + row
    q = _part(projected, sequence, tokens, row, head, 3 * width, D)
    low, high = span(row, bounds, sequence, sequences, tokens, TEXTS, REACH)
    most = tl.full((QUERIES,), -float("inf"), tl.float32)
    total = tl.zeros((QUERIES,), tl.float32)
    mixed = tl.zeros((QUERIES, D), tl.float32)
    for start in range(tl.min(low) // KEYS * KEYS, tl.max(high), KEYS):
        column = start + tl.arange(0, KEYS)
        k = _part(projected + width, sequence, tokens, column, head, 3 * width, D)
        v = _part(projected + 2 * width, sequence, tokens, column, head, 3 * width, D)
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        if TEXTS or REACH or RAGGED:
            scores = tl.where(seen(low, high, column), scores, UNSEEN)
        higher = tl.maximum(most, tl.max(scores, 1) * bits)
        share = tl.exp2(scores * bits - higher[:, None])
        fade = tl.exp2(most - higher)
        total = total * fade + tl.sum(share, 1)
        if DROPS:
            share = tl.where(keeps(at, column, seeds, threshold), share, 0.0)
        mixed = mixed * fade[:, None] + tl.dot(share.to(v.dtype), v, input_precision=PRECISION)
        most = higher
    place = (sequence * tokens + row)[:, None] * width + head * D + tl.arange(0, D)[None, :]
    mixed *= (keep_scale / total)[:, None]
    tl.store(out + place, mixed.to(out.dtype.element_ty), mask=(row < tokens)[:, None])
    tl.store(log_sum + at, most + tl.log2(total), mask=row < tokens)


@triton.jit
def _shares(
    q, k, v, d, sums, along, row, column, low, high, seeds, tokens, threshold, bits,
    TURNED: tl.constexpr, MASKED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the attention weights after dropout and the gradient of the scores, both unscaled.

    Queries run down and keys across, transposed with TURNED. The spans `low` to `high` are those of what runs down.
    """
    if TURNED:
        scores = tl.dot(k, tl.trans(q), input_precision=PRECISION)
        to_share = tl.dot(v, tl.trans(d), input_precision=PRECISION)
        sums, along = sums[None, :], along[None, :]
    else:
        scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
        to_share = tl.dot(d, tl.trans(v), input_precision=PRECISION)
        sums, along = sums[:, None], along[:, None]
    share = tl.exp2(scores * bits - sums)
    if MASKED:
        share = tl.where(seen(low, high, row if TURNED else column), share, 0.0)
    used = share
    if DROPS:
        keep = keeps(tl.program_id(0) * tokens + row, column, seeds, threshold, TURNED)
        used = tl.where(keep, share, 0.0)
        to_share = tl.where(keep, to_share, 0.0)
    return used.to(q.dtype), (share * (to_share - along)).to(q.dtype)


@triton.jit
def _to_queries(
    projected, bounds, cosines, sines, seeds, out, log_sum, gradient, along, to_projected, partial, sequences, tokens,
    heads, threshold, bits, keep_scale, QUERIES: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr,
    REACH: tl.constexpr, ROTATES: tl.constexpr, RAGGED: tl.constexpr, DROPS: tl.constexpr, SUMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head, width = tl.program_id(0) // heads, tl.program_id(0) % heads, heads * D
    row = tl.program_id(1) * QUERIES + tl.arange(0, QUERIES)
    at = tl.program_id(0) * tokens + row
    q = _part(projected, sequence, tokens, row, head, 3 * width, D)
    d = _part(gradient, sequence, tokens, row, head, width, D)
    mixed = _part(out, sequence, tokens, row, head, width, D)
    sums = tl.load(log_sum + at, mask=row < tokens, other=0.0)
    own = tl.sum(d.to(tl.float32) * mixed.to(tl.float32), 1) / keep_scale
    tl.store(along + at, own, mask=row < tokens)
    low, high = span(row, bounds, sequence, sequences, tokens, TEXTS, REACH)
    to_q = tl.zeros((QUERIES, D), tl.float32)
    for start in range(tl.min(low) // KEYS * KEYS, tl.max(high), KEYS):
        column = start + tl.arange(0, KEYS)
        k = _part(projected + width, sequence, tokens, column, head, 3 * width, D)
        v = _part(projected + 2 * width, sequence, tokens, column, head, 3 * width, D)
        _, to_scores = _shares(
            q, k, v, d, sums, own, row, column, low, high, seeds, tokens, threshold, bits,
            False, TEXTS or REACH or RAGGED, DROPS, PRECISION,
        )  # fmt: skip
        to_q += tl.dot(to_scores, k, input_precision=PRECISION)
    to_q *= bits * LN_2 * keep_scale
    place, inner = (sequence * tokens + row)[:, None] * (3 * width) + head * D, tl.arange(0, D)
    store_gradient(to_projected, place, to_q, row, bounds, cosines, sines, sequence, tokens, QUERIES, D, TEXTS, ROTATES)
    if SUMS:
        into = partial + (sequence * tl.num_programs(1) + tl.program_id(1)) * 3 * width + head * D + inner
        tl.store(into, tl.sum(to_q, 0))


@triton.jit
def _to_keys_and_values(
    projected, bounds, cosines, sines, seeds, log_sum, gradient, along, to_projected, partial, sequences, tokens, heads,
    threshold, bits, keep_scale, QUERIES: tl.constexpr, KEYS: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr,
    REACH: tl.constexpr, ROTATES: tl.constexpr, RAGGED: tl.constexpr, DROPS: tl.constexpr, SUMS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Keys run down and queries across, so that both products use the weights in their register layout."""
    sequence, head, width = tl.program_id(0) // heads, tl.program_id(0) % heads, heads * D
    column = tl.program_id(1) * KEYS + tl.arange(0, KEYS)
    k = _part(projected + width, sequence, tokens, column, head, 3 * width, D)
    v = _part(projected + 2 * width, sequence, tokens, column, head, 3 * width, D)
    low, high = span(column, bounds, sequence, sequences, tokens, TEXTS, REACH)  # who sees whom is mutual
    to_k = tl.zeros((KEYS, D), tl.float32)
    to_v = tl.zeros((KEYS, D), tl.float32)
    for start in range(tl.min(low) // QUERIES * QUERIES, tl.max(high), QUERIES):
        row = start + tl.arange(0, QUERIES)
        at = tl.program_id(0) * tokens + row
        q = _part(projected, sequence, tokens, row, head, 3 * width, D)
        d = _part(gradient, sequence, tokens, row, head, width, D)
        sums = tl.load(log_sum + at, mask=row < tokens, other=0.0)
        own = tl.load(along + at, mask=row < tokens, other=0.0)
        used, to_scores = _shares(
            q, k, v, d, sums, own, row, column, low, high, seeds, tokens, threshold, bits,
            True, TEXTS or REACH or RAGGED, DROPS, PRECISION,
        )  # fmt: skip
        to_v += tl.dot(used, d, input_precision=PRECISION)
        to_k += tl.dot(to_scores, q, input_precision=PRECISION)
    to_v *= keep_scale
    to_k *= bits * LN_2 * keep_scale
    place, inner = (sequence * tokens + column)[:, None] * (3 * width) + head * D + width, tl.arange(0, D)
    store_gradient(to_projected, place, to_k, column, bounds, cosines, sines, sequence, tokens, KEYS, D, TEXTS, ROTATES)
    into = to_projected + place + width + inner[None, :]
    tl.store(into, to_v.to(to_projected.dtype.element_ty), mask=(column < tokens)[:, None])
    if SUMS:
        into = partial + (sequence * tl.num_programs(1) + tl.program_id(1)) * 3 * width + head * D + inner
        tl.store(into + width, tl.sum(to_k, 0))
        tl.store(into + 2 * width, tl.sum(to_v, 0))


def attention_for(projected: Tensor, heads: int) -> ModuleType:
    """Return the module that computes attention over projected states (B, L, 3H): this one, or the one for short."""
    _, tokens, triple = projected.shape
    whole = tokens <= SHORT and attention.fits(tokens, triple // 3 // heads, projected.device)
    return attention if whole else sys.modules[__name__]


def attend(projected: Tensor, heads: int, sight: Sight, drop: Drop, out: Tensor, log_sum: Tensor) -> None:
    """Do the same as `attention.attend`; queries and keys are rotated in place first."""
    sequences, tokens, _ = projected.shape
    if sight.rotation:
        rotate(projected, heads, sight.bounds, sight.rotation)
    blocks = _cut(sight).forward
    with on_device(projected):
        _long_forward[(sequences * heads, triton.cdiv(tokens, blocks.queries))](
            projected, sight.bounds, drop.seeds, out, log_sum, sequences, tokens, heads,
            *numbers(projected, heads, drop), **flags(projected, heads, sight, drop), **_constants(blocks, tokens),
        )  # fmt: skip


def backward_programs(sequences: int, tokens: int) -> int:
    """Return the number of partial sums of the backward pass; `tokens` is the length of a sequence."""
    programs: int = sequences * triton.cdiv(tokens, WHOLE.share)
    return programs


def attend_backward(
    gradient: Tensor, projected: Tensor, out: Tensor, log_sum: Tensor, heads: int, sight: Sight, drop: Drop,
    to_projected: Tensor, partial: Tensor | None,
) -> None:  # fmt: skip
    """Do the same as `attention.attend_backward`."""
    sequences, tokens, _ = projected.shape
    cut = WHOLE if partial is not None else _cut(sight)
    programs, along = (sequences * heads, triton.cdiv(tokens, cut.share)), torch.empty_like(log_sum)
    scales = numbers(projected, heads, drop)
    common = flags(projected, heads, sight, drop) | {"ROTATES": bool(sight.rotation), "SUMS": partial is not None}
    with on_device(projected):
        _to_queries[programs](
            projected, sight.bounds, *rotation(sight), drop.seeds, out, log_sum, gradient, along, to_projected,
            partial, sequences, tokens, heads, *scales, **common, **_constants(cut.to_queries, tokens),
        )  # fmt: skip
        _to_keys_and_values[programs](
            projected, sight.bounds, *rotation(sight), drop.seeds, log_sum, gradient, along, to_projected, partial,
            sequences, tokens, heads, *scales, **common, **_constants(cut.to_keys_and_values, tokens),
        )  # fmt: skip


def _cut(sight: Sight) -> Cut:
    return NEAR if sight.reach else WHOLE


def _constants(blocks: Blocks, tokens: int) -> dict[str, object]:
    queries, keys, warps = blocks
    return {"QUERIES": queries, "KEYS": keys, "RAGGED": tokens % keys != 0, "num_warps": warps}
