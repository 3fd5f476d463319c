"""The two halves of a Transformer block as single operations, with backward passes of their own.

Each ends in norm(x + dropout(branch(x))), so that the gradient of x has two parts; the second is added where a matrix
product computes it. Shapes: B sequences, L tokens, H hidden size, F feed-forward size.
"""

from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from electra.model.kernels import SHORT, attention, long_attention
from electra.model.kernels.gelu import bias_gelu, bias_gelu_backward
from electra.model.kernels.norm import add_and_norm, add_and_norm_backward


def _attention(x: Tensor, heads: int) -> ModuleType:
    whole = x.size(1) <= SHORT and attention.fits(x.size(1), x.size(2) // heads, x.device)
    return attention if whole else long_attention


class _Attention(torch.autograd.Function):
    """norm(x + dropout(W_o attend(W_qkv x + b_qkv) + b_o))."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, qkv: Tensor, qkv_bias: Tensor, output: Tensor, output_bias: Tensor, gain: Tensor,
        shift: Tensor, texts: Tensor | None, seeds: Tensor, heads: int, chances: tuple[float, float], eps: float,
    ) -> Tensor:  # fmt: skip
        flat = x.flatten(0, 1)
        projected = torch.addmm(qkv_bias, flat, qkv.t()).view(*x.shape[:2], -1)
        mixed, log_sum = _attention(x, heads).attend(projected, heads, texts, seeds[0], chances[0])
        summed = mixed.flatten(0, 1) @ output.t()
        out, mean, deviation = add_and_norm(summed, output_bias, flat, gain, shift, seeds[1], chances[1], eps)
        context.save_for_backward(
            x, qkv, output, gain, texts, seeds, projected, mixed, log_sum, summed, mean, deviation
        )
        context.heads, context.chances = heads, chances
        return out.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, qkv, output, gain, texts, seeds, projected, mixed, log_sum, summed, mean, deviation = context.saved_tensors
        gradient = gradient.contiguous().flatten(0, 1)
        to_x, to_branch, vectors = add_and_norm_backward(
            gradient, summed, gain, mean, deviation, seeds[1], context.chances[1]
        )
        to_output = to_branch.t() @ mixed.flatten(0, 1)
        to_mixed = (to_branch @ output).view_as(mixed)
        to_projected, to_qkv_bias = _attention(x, context.heads).attend_backward(
            to_mixed, projected, mixed, log_sum, context.heads, texts, seeds[0], context.chances[0]
        )
        to_projected = to_projected.flatten(0, 1)
        to_qkv = to_projected.t() @ x.flatten(0, 1)
        to_x = to_x.addmm_(to_projected, qkv).view_as(x)
        to_gain, to_shift, to_output_bias = vectors
        return (to_x, to_qkv, to_qkv_bias, to_output, to_output_bias, to_gain, to_shift, *[None] * 5)


class _FeedForward(torch.autograd.Function):
    """norm(x + dropout(W_2 gelu(W_1 x + b_1) + b_2))."""

    @staticmethod
    def forward(
        context: Any, x: Tensor, expand: Tensor, expand_bias: Tensor, contract: Tensor, contract_bias: Tensor,
        gain: Tensor, shift: Tensor, seeds: Tensor, chance: float, eps: float,
    ) -> Tensor:  # fmt: skip
        flat = x.flatten(0, 1)
        wide = flat @ expand.t()
        active = bias_gelu(wide, expand_bias)
        summed = active @ contract.t()
        out, mean, deviation = add_and_norm(summed, contract_bias, flat, gain, shift, seeds, chance, eps)
        context.save_for_backward(x, expand, expand_bias, contract, gain, seeds, wide, active, summed, mean, deviation)
        context.chance = chance
        return out.view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, expand, expand_bias, contract, gain, seeds, wide, active, summed, mean, deviation = context.saved_tensors
        gradient = gradient.contiguous().flatten(0, 1)
        to_x, to_branch, vectors = add_and_norm_backward(gradient, summed, gain, mean, deviation, seeds, context.chance)
        to_contract = to_branch.t() @ active
        to_wide = to_branch @ contract
        to_expand_bias = bias_gelu_backward(to_wide, wide, expand_bias)
        to_expand = to_wide.t() @ x.flatten(0, 1)
        to_x = to_x.addmm_(to_wide, expand).view_as(x)
        to_gain, to_shift, to_contract_bias = vectors
        return (to_x, to_expand, to_expand_bias, to_contract, to_contract_bias, to_gain, to_shift, *[None] * 3)


def attention_half(
    x: Tensor, qkv: nn.Linear, output: nn.Linear, norm: nn.LayerNorm, texts: Tensor | None, seeds: Tensor, heads: int,
    chances: tuple[float, float],
) -> Tensor:  # fmt: skip
    """Let the tokens (B, L, H) of a text see each other; two dropouts, of the shares and of the branch."""
    out: Tensor = _Attention.apply(  # type: ignore[no-untyped-call]
        x, qkv.weight, qkv.bias, output.weight, output.bias, norm.weight, norm.bias, texts, seeds, heads, chances,
        norm.eps,
    )  # fmt: skip
    return out


def feed_forward_half(
    x: Tensor, expand: nn.Linear, contract: nn.Linear, norm: nn.LayerNorm, seeds: Tensor, chance: float
) -> Tensor:
    """Map each token (B, L, H) through the wide layer; one dropout."""
    out: Tensor = _FeedForward.apply(  # type: ignore[no-untyped-call]
        x, expand.weight, expand.bias, contract.weight, contract.bias, norm.weight, norm.bias, seeds, chance, norm.eps
    )
    return out
