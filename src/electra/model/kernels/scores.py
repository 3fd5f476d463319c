"""What the two kinds of attention have in common: how scores are scaled, and what masks and drops them."""

import math

import torch
import triton.language as tl
from torch import Tensor

from electra.model.kernels.dropout import threshold

# Scores are exponents of two, which a GPU knows: scaled by `bits` = 1 / (√D ln 2), e^(score / √D) is 2^(score · bits).
LN_2 = tl.constexpr(math.log(2))
# A power of two, so that scaling it is exact: a fused multiply-add then leaves zero of two unseen scores, and not 1e20.
UNSEEN = tl.constexpr(-(2.0**100))


def numbers(projected: Tensor, heads: int, chance: float) -> tuple[int, float, float]:
    """Give dropout's threshold, the scale of the scores and that of what is kept."""
    return threshold(chance), _size(projected, heads) ** -0.5 / math.log(2), 1 / (1 - chance)


def flags(projected: Tensor, heads: int, texts: Tensor | None, chance: float) -> dict[str, object]:
    """Give the constants that both are compiled with."""
    return {
        "D": _size(projected, heads),
        "TEXTS": texts is not None,
        "DROPS": chance > 0,
        "PRECISION": "ieee" if projected.dtype == torch.float32 else "tf32",
    }


def _size(projected: Tensor, heads: int) -> int:
    return projected.size(2) // 3 // heads
