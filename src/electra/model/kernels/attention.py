"""Attention for short sequences: the full score matrix of a head stays on the chip, forward and backward.

Queries, keys and values are read in the layout of the projection, (B, L, 3, heads, D), and their gradients are written
in the same layout. Shapes: B sequences, L tokens, D head size.
"""

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

from electra.model.kernels.dropout import keeps, threshold
from electra.model.kernels.launch import on_device

WARPS = 8  # per program
# GPUs compute 2^x natively: with `bits` = 1 / (√D ln 2), e^(score / √D) equals 2^(score · bits).
LN_2 = tl.constexpr(math.log(2))
# A power of two, so that scaling is exact: a fused multiply-add of two unseen scores then yields 0 instead of 1e20.
UNSEEN = tl.constexpr(-(2.0**100))


@triton.jit
def _scores(
    q, k, texts, sequence, tokens, L: tl.constexpr, TEXTS: tl.constexpr, RAGGED: tl.constexpr, PRECISION: tl.constexpr
):
    """Return the unscaled (L, L) scores of a head, very negative where a query cannot see a key."""
    row = tl.arange(0, L)
    scores = tl.dot(q, tl.trans(k), input_precision=PRECISION)
    if RAGGED:
        scores = tl.where((row < tokens)[None, :], scores, UNSEEN)
    if TEXTS:
        text = tl.load(texts + sequence * tokens + row, mask=row < tokens, other=-1)
        scores = tl.where(text[:, None] == text[None, :], scores, UNSEEN)
    return scores


@triton.jit
def _attention_forward(
    projected, texts, seeds, out, log_sum, tokens, heads, threshold, bits, keep_scale, L: tl.constexpr,
    D: tl.constexpr, TEXTS: tl.constexpr, RAGGED: tl.constexpr, DROPS: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row, inner = tl.arange(0, L), tl.arange(0, D)
    inside = (row < tokens)[:, None]
    width = heads * D
    place = (sequence * tokens + row)[:, None] * (3 * width) + head * D + inner[None, :]
    q = tl.load(projected + place, mask=inside, other=0.0)
    k = tl.load(projected + place + width, mask=inside, other=0.0)
    v = tl.load(projected + place + 2 * width, mask=inside, other=0.0)
    scores = _scores(q, k, texts, sequence, tokens, L, TEXTS, RAGGED, PRECISION)
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
    projected, texts, seeds, out, log_sum, gradient, to_projected, partial, tokens, heads, threshold, bits, keep_scale,
    L: tl.constexpr, D: tl.constexpr, TEXTS: tl.constexpr, RAGGED: tl.constexpr, DROPS: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    sequence, head = tl.program_id(0) // heads, tl.program_id(0) % heads
    row, inner = tl.arange(0, L), tl.arange(0, D)
    inside = (row < tokens)[:, None]
    width = heads * D
    place = (sequence * tokens + row)[:, None] * (3 * width) + head * D + inner[None, :]
    at = (sequence * tokens + row)[:, None] * width + head * D + inner[None, :]
    q = tl.load(projected + place, mask=inside, other=0.0)
    k = tl.load(projected + place + width, mask=inside, other=0.0)
    v = tl.load(projected + place + 2 * width, mask=inside, other=0.0)
    d = tl.load(gradient + at, mask=inside, other=0.0)
    mixed = tl.load(out + at, mask=inside, other=0.0)
    sums = tl.load(log_sum + tl.program_id(0) * tokens + row, mask=row < tokens, other=0.0)
    scores = _scores(q, k, texts, sequence, tokens, L, TEXTS, RAGGED, PRECISION)
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
    kind = to_projected.dtype.element_ty
    tl.store(to_projected + place, to_q.to(kind), mask=inside)
    tl.store(to_projected + place + width, to_k.to(kind), mask=inside)
    tl.store(to_projected + place + 2 * width, to_v.to(kind), mask=inside)
    into = partial + sequence * 3 * width + head * D + inner
    tl.store(into, tl.sum(to_q, 0))
    tl.store(into + width, tl.sum(to_k, 0))
    tl.store(into + 2 * width, tl.sum(to_v, 0))


def fits(tokens: int, head_size: int, device: torch.device) -> bool:
    """Return whether two score matrices and three operands of their products fit in on-chip memory.

    128 tokens with a head size of 64 need 112 KiB: data-center GPUs have that much, others only 99 KiB.
    """
    if device.type == "cpu":
        return True
    size, chip = _size(tokens), torch.cuda.get_device_properties(device)
    return 4 * size**2 + 6 * size * head_size < chip.shared_memory_per_multiprocessor


def attend(
    projected: Tensor, heads: int, texts: Tensor | None, seeds: Tensor, chance: float, out: Tensor, log_sum: Tensor
) -> None:
    """Compute attention over projected states (B, L, 3H) between tokens with equal `texts` (B, L).

    Writes the output (B · L, H) and the log-sums of the scores, B · heads · L numbers.
    """
    sequences, tokens, _ = projected.shape
    with on_device(projected):
        _attention_forward[(sequences * heads,)](
            projected, texts, seeds, out, log_sum, tokens, heads, *numbers(projected, heads, chance),
            **_constants(projected, heads, texts, chance),
        )  # fmt: skip


def backward_programs(sequences: int, tokens: int) -> int:
    """Return the number of partial sums of the backward pass; `tokens` is the length of a sequence."""
    return sequences


def attend_backward(
    gradient: Tensor, projected: Tensor, out: Tensor, log_sum: Tensor, heads: int, texts: Tensor | None, seeds: Tensor,
    chance: float, to_projected: Tensor, partial: Tensor,
) -> None:  # fmt: skip
    """Write the gradient of the projected states (B · L, 3H) and its partial sums (programs, 3H) over tokens."""
    sequences, tokens, _ = projected.shape
    with on_device(projected):
        _attention_backward[(sequences * heads,)](
            projected, texts, seeds, out, log_sum, gradient, to_projected, partial, tokens, heads,
            *numbers(projected, heads, chance), **_constants(projected, heads, texts, chance),
        )  # fmt: skip


def numbers(projected: Tensor, heads: int, chance: float) -> tuple[int, float, float]:
    """Return the dropout threshold, the scale of the scores and the scale of the weights kept by dropout."""
    return threshold(chance), _head_size(projected, heads) ** -0.5 / math.log(2), 1 / (1 - chance)


def flags(projected: Tensor, heads: int, texts: Tensor | None, chance: float) -> dict[str, object]:
    """Return the compile-time constants of both attention kernels."""
    return {
        "D": _head_size(projected, heads),
        "TEXTS": texts is not None,
        "DROPS": chance > 0,
        "PRECISION": "ieee" if projected.dtype == torch.float32 else "tf32",
    }


def _head_size(projected: Tensor, heads: int) -> int:
    return projected.size(2) // 3 // heads


def _size(tokens: int) -> int:
    size: int = max(16, triton.next_power_of_2(tokens))  # matrix units need at least 16 rows
    return size


def _constants(projected: Tensor, heads: int, texts: Tensor | None, chance: float) -> dict[str, object]:
    tokens = projected.size(1)
    cut = {"L": _size(tokens), "RAGGED": tokens != _size(tokens), "num_warps": WARPS}
    return flags(projected, heads, texts, chance) | cut
