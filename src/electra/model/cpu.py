"""Training on a CPU: the same functions as PyTorch's, made of those of its parts that are fast there.

Each falls back on PyTorch's own where that is as fast: on a GPU, in bf16, compiled, or when nothing is trained.
"""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 2**16  # the chance of dropout is rounded to one of these: by less than 0.00001


def trains_on_cpu(hidden: Tensor) -> bool:
    """Say whether a gradient will be wanted of float32 numbers on a CPU."""
    plain = hidden.device.type == "cpu" and hidden.dtype == torch.float32
    return plain and torch.is_grad_enabled() and not torch.compiler.is_compiling()


class Dropout(nn.Dropout):
    """Dropout that cuts four decisions out of each random number: drawing them is serial work on a CPU."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Set each number to zero with probability p, and scale up the others."""
        if not self.training or not self.p or not trains_on_cpu(hidden):
            return super().forward(hidden)
        bits = torch.empty(-(-hidden.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = bits.view(torch.int16)[: hidden.numel()].view(hidden.shape)  # uniform from -LEVELS / 2 up
        dropped = round(self.p * LEVELS)
        noise = (levels >= dropped - LEVELS // 2).to(hidden.dtype)
        return hidden * noise.mul_(LEVELS / (LEVELS - dropped))


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: nn.Dropout) -> Tensor:
    """Mix values (B, heads, L, D) by softmax(query · key / √D) where the boolean mask allows it."""
    chance = dropout.p if dropout.training else 0.0
    if not chance or not trains_on_cpu(query):  # without dropout, PyTorch has a fast path on a CPU too
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=chance)
    scores: Tensor = _Product.apply(query / math.sqrt(query.size(-1)), key.transpose(-1, -2))  # type: ignore[no-untyped-call]
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    mixed: Tensor = _Product.apply(dropout(scores.softmax(-1)), value)  # type: ignore[no-untyped-call]
    return mixed


class _Product(torch.autograd.Function):
    """left @ right, both ways with a right factor that lies in rows: OpenBLAS is up to ten times slower on others."""

    @staticmethod
    def forward(context: Any, left: Tensor, right: Tensor) -> Tensor:
        context.save_for_backward(left, right)
        return left @ right.contiguous()

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        left, right = context.saved_tensors
        return gradient @ right.transpose(-1, -2).contiguous(), left.transpose(-1, -2) @ gradient


def gelu(hidden: Tensor) -> Tensor:
    """Give x · Φ(x), Φ the standard normal distribution."""
    if not trains_on_cpu(hidden):
        return F.gelu(hidden)
    activated: Tensor = _Gelu.apply(hidden)  # type: ignore[no-untyped-call]
    return activated


class _Gelu(torch.autograd.Function):
    """GELU with a derivative made of vectorised parts, Φ(x) + x φ(x): PyTorch's own goes number by number on ARM.

    Φ(x) is the output over x, which spares the error function; the output is kept for the next layer anyway.
    """

    @staticmethod
    def forward(context: Any, hidden: Tensor) -> Tensor:
        activated = F.gelu(hidden)
        context.save_for_backward(hidden, activated)
        return activated

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        hidden, activated = context.saved_tensors
        bell = hidden.square().mul_(-0.5).exp_()
        below: Tensor = (activated / hidden).nan_to_num_(0.5)  # Φ(0)
        return below.addcmul_(hidden, bell, value=1 / math.sqrt(2 * math.pi)).mul_(gradient)
