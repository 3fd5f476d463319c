"""Scaling, masking and dropout of scores, shared by both attention kernels."""

import math

import torch
import triton.language as tl
from torch import Tensor

from electra.model.kernels.dropout import threshold

# GPUs compute 2^x natively: with `bits` = 1 / (√D ln 2), e^(score / √D) equals 2^(score · bits).
LN_2 = tl.constexpr(math.log(2))
# A power of two, so that scaling is exact: a fused multiply-add of two unseen scores then yields 0 instead of 1e20.
UNSEEN = tl.constexpr(-(2.0**100))


def numbers(projected: Tensor, heads: int, chance: float) -> tuple[int, float, float]:
    """Return the dropout threshold, the scale of the scores and the scale of the weights kept by dropout."""
    return threshold(chance), _size(projected, heads) ** -0.5 / math.log(2), 1 / (1 - chance)


def flags(projected: Tensor, heads: int, texts: Tensor | None, chance: float) -> dict[str, object]:
    """Return the compile-time constants of both attention kernels."""
    return {
        "D": _size(projected, heads),
        "TEXTS": texts is not None,
        "DROPS": chance > 0,
        "PRECISION": "ieee" if projected.dtype == torch.float32 else "tf32",
    }


def _size(projected: Tensor, heads: int) -> int:
    return projected.size(2) // 3 // heads
