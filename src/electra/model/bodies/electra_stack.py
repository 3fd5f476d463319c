"""The blocks of an encoder, many at a time as one operation with a custom backward pass.

Both halves of a block end in norm(x + dropout(branch(x))), so the gradient of x has two terms; the matrix product that
computes the second one adds it to the first. The backward pass first computes the gradients of the states, block by
block; the weight gradients follow for many layers at once, from tensors that hold the layers contiguously. Blocks whose
state gradients take too much memory together are several such operations.
Shapes: B sequences, L tokens, T = B · L, H hidden size, F feed-forward size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from electra.model.bodies.stack import group_layers, into_blocks, needs_gradient, part, room_like
from electra.model.kernels import gelu, norm
from electra.model.kernels.attention import Drop, Sight
from electra.model.kernels.long_attention import attention_for
from electra.model.kernels.products import weight_gradients

ALIGNED = 4  # float32 numbers: if all vectors start at multiples of 16 bytes, one compiled kernel serves them all


class Settings(NamedTuple):
    """Settings shared by all blocks."""

    heads: int
    share_dropout: float  # probability of dropping an attention weight
    dropout: float  # probability of dropping a number of a branch
    eps: float  # of the norms


class Block(NamedTuple):
    """The weights of a block in order of use, or their gradients for several layers."""

    qkv: Tensor
    qkv_bias: Tensor
    output: Tensor
    output_bias: Tensor
    attention_gain: Tensor
    attention_shift: Tensor
    expand: Tensor
    expand_bias: Tensor
    contract: Tensor
    contract_bias: Tensor
    feed_forward_gain: Tensor
    feed_forward_shift: Tensor


class _Kept(NamedTuple):
    """Tensors kept for the backward pass, for some layers or for one."""

    states: Tensor  # (layers + 1, T, H), the input of each block, then the output of the last one
    projected: Tensor  # (layers, B, L, 3H)
    log_sum: Tensor  # (layers, B · heads · L), aligned
    mixed: Tensor  # (layers, T, H)
    middle: Tensor  # (layers, T, H), between the two halves
    wide: Tensor  # (layers, T, F)
    active: Tensor  # (layers, T, F)
    summed: Tensor  # (layers, 2, T, H), the inputs of the two norms
    moments: Tensor  # (layers, 2, 2, T), aligned, means and inverse deviations of the norms


class _Gradients(NamedTuple):
    """Inputs of the weight gradients of some layers: gradients of products, and partial sums for vectors."""

    to_projected: Tensor  # (layers, T, 3H)
    to_attended: Tensor  # (layers, T, H)
    to_wide: Tensor  # (layers, T, F)
    to_contracted: Tensor  # (layers, T, H)
    of_projected: Tensor  # (layers, programs, 3H)
    of_wide: Tensor  # (layers, programs, F)
    of_norms: Tensor  # (layers, 2, programs, 3H)


class _Stack(torch.autograd.Function):
    """Twice per block, norm(x + dropout(branch(x))).

    The branches are W_o attend(W_qkv x + b_qkv) + b_o and W_2 gelu(W_1 x + b_1) + b_2.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, bounds: Tensor | None, seeds: Tensor, settings: Settings, keeps: bool, *weights: Tensor
    ) -> Tensor:
        blocks = into_blocks(Block, weights)
        kept = _make_room(x, blocks, settings, keeps)
        kept.states[0] = x.flatten(0, 1)
        for layer, block in enumerate(blocks):
            _forward(block, part(kept, layer), kept.states[layer + 1], bounds, seeds[layer], settings)
        context.save_for_backward(bounds, seeds, *kept, *weights)
        context.settings = settings
        return kept.states[-1].view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        bounds, seeds, *tensors = context.saved_tensors
        count = len(_Kept._fields)
        kept, blocks = _Kept(*tensors[:count]), into_blocks(Block, tensors[count:])
        to_x = gradient.contiguous().flatten(0, 1)
        found = _make_room_for_gradients(kept, context.settings)
        for layer in reversed(range(len(blocks))):
            to_x = _backward(
                to_x, blocks[layer], part(kept, layer), part(found, layer), bounds, seeds[layer], context.settings
            )
        return (to_x.view_as(gradient), None, None, None, None, *_finish(part(kept, slice(len(blocks))), found))


def run_blocks(
    x: Tensor, weights: Sequence[Tensor], bounds: Tensor | None, seeds: Tensor, settings: Settings
) -> Tensor:
    """Run states (B, L, H) through all blocks; `weights` are those of each block, in the order of `Block`.

    `bounds` (2, B, L) are the beginning and the end of each token's text.
    """
    keeps, blocks = needs_gradient((x, *weights)), into_blocks(Block, weights)
    width = len(blocks[0].qkv) + 2 * len(blocks[0].output) + len(blocks[0].expand)  # of the states with gradients
    groups = group_layers(len(blocks), x[..., 0].numel() * width * x.itemsize) if keeps else [slice(len(blocks))]
    for group in groups:
        chosen = [weight for block in blocks[group] for weight in block]
        x = _Stack.apply(x, bounds, seeds[group], settings, keeps, *chosen)  # type: ignore[no-untyped-call]
    return x


def _make_room(x: Tensor, blocks: Sequence[Block], settings: Settings, keeps: bool) -> _Kept:
    (sequences, tokens, hidden), layers, wide = x.shape, len(blocks), len(blocks[0].expand)
    total, room = sequences * tokens, room_like(x, keeps)
    return _Kept(
        states=room(layers + 1, total, hidden),
        projected=room(layers, sequences, tokens, 3 * hidden),
        log_sum=room(layers, _aligned(total * settings.heads), dtype=torch.float32),
        mixed=room(layers, total, hidden),
        middle=room(layers, total, hidden),
        wide=room(layers, total, wide),
        active=room(layers, total, wide),
        summed=room(layers, 2, total, hidden),
        moments=room(layers, 2, 2, _aligned(total), dtype=torch.float32),
    )


def _forward(block: Block, kept: _Kept, out: Tensor, bounds: Tensor | None, seeds: Tensor, settings: Settings) -> None:
    """Run states through a block; if nothing is kept, `out` overwrites its input."""
    x, heads = kept.states, settings.heads
    torch.addmm(block.qkv_bias, x, block.qkv.t(), out=kept.projected.flatten(0, 1))
    attend = attention_for(kept.projected, heads).attend
    drop = Drop(settings.share_dropout, seeds[0])
    attend(kept.projected, heads, Sight(bounds), drop, kept.mixed, kept.log_sum)
    torch.mm(kept.mixed, block.output.t(), out=kept.summed[0])
    norm.add_and_norm(
        kept.summed[0], x, block.attention_gain, settings.eps, kept.summed[0], kept.middle, kept.moments[0],
        block.output_bias, block.attention_shift, seeds[1], settings.dropout,
    )  # fmt: skip
    torch.mm(kept.middle, block.expand.t(), out=kept.wide)
    gelu.bias_gelu(kept.wide, block.expand_bias, kept.active)
    torch.mm(kept.active, block.contract.t(), out=kept.summed[1])
    norm.add_and_norm(
        kept.summed[1], kept.middle, block.feed_forward_gain, settings.eps, kept.summed[1], out, kept.moments[1],
        block.contract_bias, block.feed_forward_shift, seeds[2], settings.dropout,
    )  # fmt: skip


def _make_room_for_gradients(kept: _Kept, settings: Settings) -> _Gradients:
    layers, sequences, tokens, triple = kept.projected.shape
    (_, total, hidden), wide, device = kept.middle.shape, kept.wide.size(2), kept.wide.device
    of_projected = attention_for(kept.projected[0], settings.heads).backward_programs(sequences, tokens)
    return _Gradients(
        to_projected=torch.empty_like(kept.projected).flatten(1, 2),
        to_attended=torch.empty_like(kept.middle),
        to_wide=torch.empty_like(kept.wide),
        to_contracted=torch.empty_like(kept.middle),
        of_projected=kept.moments.new_empty(layers, of_projected, triple),
        of_wide=kept.moments.new_empty(layers, gelu.backward_programs(total, wide, device), wide),
        of_norms=kept.moments.new_empty(layers, 2, norm.backward_programs(total, hidden, device), 3 * hidden),
    )


def _backward(
    gradient: Tensor, block: Block, kept: _Kept, found: _Gradients, bounds: Tensor | None, seeds: Tensor,
    settings: Settings,
) -> Tensor:  # fmt: skip
    """Return the gradient of a block's input, and write the inputs of its weight gradients to `found`."""
    to_middle, to_x = torch.empty_like(gradient), torch.empty_like(gradient)
    norm.add_and_norm_backward(
        gradient, None, kept.summed[1], block.feed_forward_gain, kept.moments[1], to_middle, found.of_norms[1],
        found.to_contracted, seeds[2], settings.dropout,
    )  # fmt: skip
    torch.mm(found.to_contracted, block.contract, out=found.to_wide)
    gelu.bias_gelu_backward(found.to_wide, kept.wide, block.expand_bias, found.of_wide)
    to_middle.addmm_(found.to_wide, block.expand)
    norm.add_and_norm_backward(
        to_middle, None, kept.summed[0], block.attention_gain, kept.moments[0], to_x, found.of_norms[0],
        found.to_attended, seeds[1], settings.dropout,
    )  # fmt: skip
    to_mixed = found.to_attended @ block.output
    attention_for(kept.projected, settings.heads).attend_backward(
        to_mixed, kept.projected, kept.mixed, kept.log_sum, settings.heads, Sight(bounds),
        Drop(settings.share_dropout, seeds[0]), found.to_projected, found.of_projected,
    )  # fmt: skip
    return to_x.addmm_(found.to_projected, block.qkv)


def _finish(kept: _Kept, found: _Gradients) -> list[Tensor]:
    """Return the weight gradients of some layers, layer by layer."""
    dtype, hidden = kept.wide.dtype, kept.middle.size(2)
    vectors = found.of_norms.sum(2).to(dtype).view(-1, 2, 3, hidden)
    gradients = Block(
        qkv=weight_gradients(found.to_projected, kept.states),
        qkv_bias=found.of_projected.sum(1).to(dtype),
        output=weight_gradients(found.to_attended, kept.mixed),
        output_bias=vectors[:, 0, 2],
        attention_gain=vectors[:, 0, 0],
        attention_shift=vectors[:, 0, 1],
        expand=weight_gradients(found.to_wide, kept.middle),
        expand_bias=found.of_wide.sum(1).to(dtype),
        contract=weight_gradients(found.to_contracted, kept.active),
        contract_bias=vectors[:, 1, 2],
        feed_forward_gain=vectors[:, 1, 0],
        feed_forward_shift=vectors[:, 1, 1],
    )
    return [gradient for layer in zip(*gradients, strict=True) for gradient in layer]


def _aligned(numbers: int) -> int:
    return numbers + -numbers % ALIGNED
