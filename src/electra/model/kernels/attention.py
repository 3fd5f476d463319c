"""Attention for short sequences: the full score matrix of a head stays on the chip, forward and backward.

Queries, keys and values are read in the layout of the projection, (B, L, 3, heads, D), and their gradients are written
in the same layout. Shapes: B sequences, L tokens, D head size.
"""

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels import on_chip
from electra.model.kernels.dropout import keeps, threshold
from electra.model.kernels.launch import on_device
from electra.model.kernels.rotary import Table, load_rotated, store_rotated_back

WARPS = 4  # per program
# GPUs compute 2^x natively: with `bits` = 1 / (√D ln 2), e^(score / √D) equals 2^(score · bits).
LN_2 = tl.constexpr(math.log(2))
# A power of two, so that scaling is exact: a fused multiply-add of two unseen scores then yields 0 instead of 1e20.
UNSEEN = tl.constexpr(-(2.0**100))


@triton.jit
def span(row, bounds, sequence, sequences, tokens, TEXTS: tl.constexpr, REACH: tl.constexpr):
    """Return the first token that each row sees, and the one after the last; nothing for rows beyond the sequence."""
    real = row < tokens
    low, high = tl.where(real, 0, tokens), tl.where(real, tokens, 0)
    if TEXTS:
        low = tl.load(bounds + sequence * tokens + row, mask=real, other=tokens)
        high = tl.load(bounds + (sequences + sequence) * tokens + row, mask=real, other=0)
    if REACH:
        low, high = tl.maximum(low, row - REACH), tl.minimum(high, row + REACH + 1)
    return low, high


@triton.jit
def seen(low, high, other):
    """Return which of the `other` tokens lie in the spans: spans down and tokens across."""
    return (other[None, :] >= low[:, None]) & (other[None, :] < high[:, None])


@triton.jit
def _queries_and_keys(
    projected, place, row, bounds, cosines, sines, sequence, tokens, width, L: tl.constexpr, D: tl.constexpr,
    TEXTS: tl.constexpr, ROTATES: tl.constexpr,
):  # fmt: skip
    """Load a head's queries and keys, rotated if asked to."""
    if ROTATES:
        q, k = load_rotated(projected, place, width, row, bounds, cosines, sines, sequence, tokens, L, D, TEXTS)
    else:
        inner, inside = tl.arange(0, D)[None, :], (row < tokens)[:, None]
        q = tl.load(projected + place + inner, mask=inside, other=0.0)
        k = tl.load(projected + place + width + inner, mask=inside, other=0.0)
    return q, k


@triton.jit
def store_gradient(
    table, place, gradient, row, bounds, cosines, sines, sequence, tokens, ROWS: tl.constexpr, D: tl.constexpr,
    TEXTS: tl.constexpr, ROTATES: tl.constexpr,
):  # fmt: skip
    """Store the gradient (ROWS, D) of a head's queries or keys, rotated back if they were rotated."""
    if ROTATES:
        store_rotated_back(table, place, gradient, row, bounds, cosines, sines, sequence, tokens, ROWS, D, TEXTS)
    else:
        into = table + place + tl.arange(0, D)[None, :]
        tl.store(into, gradient.to(table.dtype.element_ty), mask=(row < tokens)[:, None])


@triton.jit
def _scores(
    q, k, bounds, sequence, sequences, tokens, L: tl.constexpr, TEXTS: tl.constexpr, REACH: tl.constexpr,
    RAGGED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return the unscaled (L, L) scores of a head, very negative where a query cannot see a key."""
    row = tl.arange(0, L)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if TEXTS or REACH or RAGGED:
        low, high = span(row, bounds, sequence, sequences, tokens, TEXTS, REACH)
        scores = tl.where(seen(low, high, row), scores, UNSEEN)
    return scores


@triton.jit
def _attention_forward(
    projected, bounds, cosines, sines, seeds, out, log_sum, sequences, tokens, heads, threshold, bits, keep_scale,
    L: tl.constexpr,
    D: tl.constexpr, TEXTS: tl.constexpr, REACH: tl.constexpr, ROTATES: tl.constexpr, RAGGED: tl.constexpr,
    DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row, inner = tl.arange(0, L), tl.arange(0, D)
    inside = (row < tokens)[:, None]
    width = heads * D
    place = (sequence * tokens + row)[:, None] * (3 * width) + head * D
    q, k = _queries_and_keys(
        projected, place, row, bounds, cosines, sines, sequence, tokens, width, L, D, TEXTS, ROTATES
    )
    v = tl.load(projected + place + 2 * width + inner[None, :], mask=inside, other=0.0)
    scores = _scores(q, k, bounds, sequence, sequences, tokens, L, TEXTS, REACH, RAGGED, PRECISION)
    most = tl.max(scores, 1) * bits
    share = tl.exp2(scores * bits - most[:, None])
    total = tl.sum(share, 1)
    at = tl.program_id(0) * tokens + row
    if DROPS:
        share = tl.where(keeps(at, row, seeds, threshold), share, 0.0)
    mixed = tl.dot(share.to(v.dtype), v, input_precision=PRECISION) * (keep_scale / total)[:, None]
    into = (sequence * tokens + row)[:, None] * width + head * D + inner[None, :]
    tl.store(out + into, mixed.to(out.dtype.element_ty), mask=inside)
    tl.store(log_sum + at, most + tl.log2(total), mask=row < tokens)


@triton.jit
def _attention_backward(
    projected, bounds, cosines, sines, seeds, out, log_sum, gradient, to_projected, partial, sequences, tokens, heads,
    threshold, bits, keep_scale, L: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr, REACH: tl.constexpr,
    ROTATES: tl.constexpr, RAGGED: tl.constexpr, DROPS: tl.constexpr, SUMS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row, inner = tl.arange(0, L), tl.arange(0, D)
    inside = (row < tokens)[:, None]
    width = heads * D
    place = (sequence * tokens + row)[:, None] * (3 * width) + head * D
    at = (sequence * tokens + row)[:, None] * width + head * D + inner[None, :]
    q, k = _queries_and_keys(
        projected, place, row, bounds, cosines, sines, sequence, tokens, width, L, D, TEXTS, ROTATES
    )
    v = tl.load(projected + place + 2 * width + inner[None, :], mask=inside, other=0.0)
    d = tl.load(gradient + at, mask=inside, other=0.0)
    mixed = tl.load(out + at, mask=inside, other=0.0)
    sums = tl.load(log_sum + tl.program_id(0) * tokens + row, mask=row < tokens, other=0.0)
    scores = _scores(q, k, bounds, sequence, sequences, tokens, L, TEXTS, REACH, RAGGED, PRECISION)
    share = tl.exp2(scores * bits - sums[:, None])
    to_share = tl.dot(d, tl.trans(v), input_precision=PRECISION)
    used = share
    if DROPS:
        keep = keeps(tl.program_id(0) * tokens + row, row, seeds, threshold)
        used = tl.where(keep, share, 0.0)
        to_share = tl.where(keep, to_share, 0.0)
    along = tl.sum(d.to(tl.float32) * mixed.to(tl.float32), 1) / keep_scale
    to_scores = (share * (to_share - along[:, None])).to(q.dtype)
    to_v = tl.dot(tl.trans(used.to(d.dtype)), d, input_precision=PRECISION) * keep_scale
    to_k = tl.dot(tl.trans(to_scores), q, input_precision=PRECISION) * (bits * LN_2 * keep_scale)
    to_q = tl.dot(to_scores, k, input_precision=PRECISION) * (bits * LN_2 * keep_scale)
    store_gradient(to_projected, place, to_q, row, bounds, cosines, sines, sequence, tokens, L, D, TEXTS, ROTATES)
    store_gradient(
        to_projected, place + width, to_k, row, bounds, cosines, sines, sequence, tokens, L, D, TEXTS, ROTATES
    )
    tl.store(to_projected + place + 2 * width + inner[None, :], to_v.to(to_projected.dtype.element_ty), mask=inside)
    if SUMS:
        into = partial + sequence * 3 * width + head * D + inner
        tl.store(into, tl.sum(to_q, 0))
        tl.store(into + width, tl.sum(to_k, 0))
        tl.store(into + 2 * width, tl.sum(to_v, 0))


def fits(tokens: int, head_size: int, device: torch.device) -> bool:
    """Return whether two score matrices and three operands of their products fit in on-chip memory.

    128 tokens with a head size of 64 need 112 KiB: an A100, an H100 and newer ones of their kind have that much, other
    GPUs only 99 KiB.
    """
    size = _size(tokens)
    return 4 * size**2 + 6 * size * head_size < on_chip(device)


class Sight(NamedTuple):
    """Which tokens see each other."""

    bounds: Tensor | None = None  # (2, B, L): where the text of each token begins and ends; None: one text
    reach: int = 0  # how far apart they may be; 0: any distance
    rotation: Table | None = None  # of queries and keys by their positions


class Drop(NamedTuple):
    """Dropout of attention weights."""

    chance: float = 0.0
    seeds: Tensor | None = None


def attend(projected: Tensor, heads: int, sight: Sight, drop: Drop, out: Tensor, log_sum: Tensor) -> None:
    """Compute attention over projected states (B, L, 3H).

    Writes the output (B · L, H) and the log-sums of the scores, B · heads · L numbers.
    """
    sequences, tokens, _ = projected.shape
    with on_device(projected):
        _attention_forward[(sequences * heads,)](
            projected, sight.bounds, *rotation(sight), drop.seeds, out, log_sum, sequences, tokens, heads,
            *numbers(projected, heads, drop), **_constants(projected, heads, sight, drop),
        )  # fmt: skip


def backward_programs(sequences: int, tokens: int) -> int:
    """Return the number of partial sums of the backward pass; `tokens` is the length of a sequence."""
    return sequences


def attend_backward(
    gradient: Tensor, projected: Tensor, out: Tensor, log_sum: Tensor, heads: int, sight: Sight, drop: Drop,
    to_projected: Tensor, partial: Tensor | None,
) -> None:  # fmt: skip
    """Write the gradient of the projected states (B · L, 3H) and, if asked to, partial sums (programs, 3H) of it."""
    sequences, tokens, _ = projected.shape
    with on_device(projected):
        _attention_backward[(sequences * heads,)](
            projected, sight.bounds, *rotation(sight), drop.seeds, out, log_sum, gradient, to_projected, partial,
            sequences, tokens, heads, *numbers(projected, heads, drop), **_constants(projected, heads, sight, drop),
            SUMS=partial is not None,
        )  # fmt: skip


def rotation(sight: Sight) -> tuple[Tensor | None, Tensor | None]:
    """Return the cosines and sines, if there are any."""
    return sight.rotation or (None, None)


def numbers(projected: Tensor, heads: int, drop: Drop) -> tuple[int, float, float]:
    """Return the dropout threshold, the scale of the scores and the scale of the weights kept by dropout."""
    return threshold(drop.chance), _head_size(projected, heads) ** -0.5 / math.log(2), 1 / (1 - drop.chance)


def flags(projected: Tensor, heads: int, sight: Sight, drop: Drop) -> dict[str, object]:
    """Return the compile-time constants of both attention kernels."""
    return {
        "D": _head_size(projected, heads),
        "TEXTS": sight.bounds is not None,
        "REACH": sight.reach if sight.reach < projected.size(1) - 1 else 0,
        "DROPS": drop.chance > 0,
        "PRECISION": "ieee" if projected.dtype == torch.float32 else "tf32",
    }


def _head_size(projected: Tensor, heads: int) -> int:
    return projected.size(2) // 3 // heads


def _size(tokens: int) -> int:
    size: int = max(16, triton.next_power_of_2(tokens))  # matrix units need at least 16 rows
    return size


def _constants(projected: Tensor, heads: int, sight: Sight, drop: Drop) -> dict[str, object]:
    tokens = projected.size(1)
    cut = {"L": _size(tokens), "RAGGED": tokens != _size(tokens), "num_warps": WARPS}
    return flags(projected, heads, sight, drop) | cut | {"ROTATES": bool(sight.rotation)}
