"""The blocks of the body `modern` as one operation with a custom backward pass, or a few for groups of them.

Both halves of a block are x + branch(norm(x)). So the sum that ends one half and the norm that begins the next are one
kernel, and the backward pass of that norm adds the residual's gradient. As in `electra_stack`, the weight gradients of
many layers are computed at once.
Shapes: B sequences, L tokens, T = B · L, H hidden size, F feed-forward size, D head size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from electra.model.bodies.stack import group_layers, into_blocks, needs_gradient, part, room_like
from electra.model.kernels import gate, norm
from electra.model.kernels.attention import Drop, Sight
from electra.model.kernels.long_attention import attention_for
from electra.model.kernels.products import weight_gradients

NO_DROPOUT = Drop()


class Settings(NamedTuple):
    """Settings shared by all blocks; local and global blocks differ in what they see and how they rotate."""

    heads: int
    eps: float  # of the norms
    global_every: int
    reach: int  # tokens on either side that a local block sees

    def is_global(self, layer: int) -> bool:
        """Return whether a block sees all tokens of a text."""
        return layer % self.global_every == 0


class Places(NamedTuple):
    """Where texts begin and end, and the rotations (positions, D / 2) of positions in them."""

    bounds: Tensor | None  # (2, B, L); None: a sequence is one text
    global_cos: Tensor
    global_sin: Tensor
    local_cos: Tensor
    local_sin: Tensor

    def sight(self, is_global: bool, settings: Settings) -> Sight:
        """Return what the tokens of a kind of block see."""
        if is_global:
            return Sight(self.bounds, 0, (self.global_cos, self.global_sin))
        return Sight(self.bounds, settings.reach, (self.local_cos, self.local_sin))


class Block(NamedTuple):
    """The weights of a block in order of use, or their gradients for several layers.

    The input of the first block is normalized already. A gain belongs to the norm that follows a branch.
    """

    qkv: Tensor
    output: Tensor
    middle_gain: Tensor
    expand: Tensor
    contract: Tensor
    last_gain: Tensor


class _Kept(NamedTuple):
    """Tensors kept for the backward pass, for all layers or for one."""

    states: Tensor  # (layers + 1, T, H), the input of each block, then the output of the last one
    attended: Tensor  # (layers + 1, T, H), the normalized states: what attention reads, then the final output
    expanded: Tensor  # (layers, T, H), the normalized middle: what the feed-forward half reads
    moments: Tensor  # (layers, 2, 2, T), means and inverse deviations of the norms after the two halves
    projected: Tensor  # (layers, B, L, 3H)
    log_sum: Tensor  # (layers, B · heads · L)
    mixed: Tensor  # (layers, T, H)
    middle: Tensor  # (layers, T, H), between the two halves
    wide: Tensor  # (layers, T, 2F)
    active: Tensor  # (layers, T, F)


class _Gradients(NamedTuple):
    """Inputs of the weight gradients of some layers: gradients of products, and partial sums for the gains."""

    to_projected: Tensor  # (layers, T, 3H)
    to_attended: Tensor  # (layers, T, H), what the first half adds to
    to_wide: Tensor  # (layers, T, 2F)
    to_outputs: Tensor  # (layers, T, H), what the second half adds to
    of_norms: Tensor  # (layers, 2, programs, H)


class _Stack(torch.autograd.Function):
    """Twice per block, x + branch(norm(x)): from states and their norm to those after a group of blocks.

    The branches are W_o attend(rotate(W_qkv x)) and W_2 (gelu(a) · b) with [a, b] = W_1 x. The weight gradients of a
    group are computed together, and known before those of the groups below it.
    """

    @staticmethod
    def forward(
        context: Any, x: Tensor, normed: Tensor, first: int, settings: Settings, keeps: bool, *tensors: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        places, blocks = _unpack(tensors)
        kept = _make_room(x, blocks, settings, keeps)
        kept.states[0], kept.attended[0] = x.flatten(0, 1), normed.flatten(0, 1)
        for layer, block in enumerate(blocks):
            above = kept.states[layer + 1], kept.attended[layer + 1]
            _forward(block, part(kept, layer), above, places, settings, settings.is_global(first + layer))
        context.save_for_backward(*kept, *tensors)
        context.first, context.settings = first, settings
        context.set_materialize_grads(False)  # nobody reads the states after the last block, only their norm
        return kept.states[-1].view_as(x), kept.attended[-1].view_as(x)

    @staticmethod
    def backward(context: Any, to_states: Tensor | None, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved, settings = context.saved_tensors, context.settings
        count = len(_Kept._fields)
        kept, (places, blocks) = _Kept(*saved[:count]), _unpack(saved[count:])
        to_normed = gradient.contiguous().flatten(0, 1)
        to_residual = None if to_states is None else to_states.contiguous().flatten(0, 1)
        found = _make_room_for_gradients(kept)
        for layer, block in reversed(list(enumerate(blocks))):
            here = part(found, layer)
            norm.add_and_norm_backward(
                to_normed, to_residual, kept.states[layer + 1], block.last_gain, kept.moments[layer, 1],
                here.to_outputs, here.of_norms[1],
            )  # fmt: skip
            is_global = settings.is_global(context.first + layer)
            to_normed = _backward(block, part(kept, layer), here, places, settings, is_global)
            to_residual = here.to_attended
        assert to_residual is not None
        to_inputs = to_residual.view_as(gradient), to_normed.view_as(gradient)
        to_weights = _finish(part(kept, slice(len(blocks))), found)
        return (*to_inputs, None, None, None, *(None for _ in places), *to_weights)


def run_blocks(x: Tensor, weights: Sequence[Tensor], places: Places, settings: Settings) -> Tensor:
    """Run states (B, L, H) through all blocks; `weights` are those of each block, in the order of `Block`."""
    keeps, blocks = needs_gradient((x, *weights)), into_blocks(Block, weights)
    normed = x  # the embeddings are normalized already
    width = len(blocks[0].qkv) + 2 * x.size(-1) + len(blocks[0].expand)  # of the states with gradients
    groups = group_layers(len(blocks), x[..., 0].numel() * width * x.itemsize) if keeps else [slice(0, len(blocks))]
    for group in groups:
        chosen = [weight for block in blocks[group] for weight in block]
        x, normed = _Stack.apply(x, normed, group.start, settings, keeps, *places, *chosen)  # type: ignore[no-untyped-call]
    return normed


def _unpack(tensors: Sequence[Any]) -> tuple[Places, list[Block]]:
    count = len(Places._fields)
    return Places(*tensors[:count]), into_blocks(Block, tensors[count:])


def _make_room(x: Tensor, blocks: Sequence[Block], settings: Settings, keeps: bool) -> _Kept:
    (sequences, tokens, hidden), layers, wide = x.shape, len(blocks), len(blocks[0].expand)
    total, room = sequences * tokens, room_like(x, keeps)
    return _Kept(
        states=room(layers + 1, total, hidden),
        attended=room(layers + 1, total, hidden),
        expanded=room(layers, total, hidden),
        moments=room(layers, 2, 2, total, dtype=torch.float32),
        projected=room(layers, sequences, tokens, 3 * hidden),
        log_sum=room(layers, total * settings.heads, dtype=torch.float32),
        mixed=room(layers, total, hidden),
        middle=room(layers, total, hidden),
        wide=room(layers, total, wide),
        active=room(layers, total, wide // 2),
    )


def _forward(
    block: Block, kept: _Kept, above: tuple[Tensor, Tensor], places: Places, settings: Settings, is_global: bool
) -> None:
    """Run states through a block and write its output and the norm of that; if nothing is kept, over its input."""
    heads, eps = settings.heads, settings.eps
    torch.mm(kept.attended, block.qkv.t(), out=kept.projected.flatten(0, 1))
    sight = places.sight(is_global, settings)
    attention_for(kept.projected, heads).attend(kept.projected, heads, sight, NO_DROPOUT, kept.mixed, kept.log_sum)
    branch = kept.mixed @ block.output.t()
    norm.add_and_norm(branch, kept.states, block.middle_gain, eps, kept.middle, kept.expanded, kept.moments[0])
    torch.mm(kept.expanded, block.expand.t(), out=kept.wide)
    gate.gate(kept.wide, kept.active)
    torch.mm(kept.active, block.contract.t(), out=branch)
    norm.add_and_norm(branch, kept.middle, block.last_gain, eps, *above, kept.moments[1])


def _make_room_for_gradients(kept: _Kept) -> _Gradients:
    (layers, total, hidden), device = kept.middle.shape, kept.middle.device
    return _Gradients(
        to_projected=torch.empty_like(kept.projected).flatten(1, 2),
        to_attended=torch.empty_like(kept.middle),
        to_wide=torch.empty_like(kept.wide),
        to_outputs=torch.empty_like(kept.middle),
        of_norms=kept.moments.new_empty(layers, 2, norm.backward_programs(total, hidden, device), hidden),
    )


def _backward(
    block: Block, kept: _Kept, found: _Gradients, places: Places, settings: Settings, is_global: bool
) -> Tensor:
    """Return the gradient of what attention reads; write that of what the first half adds to, and more, to `found`."""
    heads = settings.heads
    to_active = found.to_outputs @ block.contract
    gate.gate_backward(to_active, kept.wide, found.to_wide)
    to_normed = found.to_wide @ block.expand
    norm.add_and_norm_backward(
        to_normed, found.to_outputs, kept.middle, block.middle_gain, kept.moments[0], found.to_attended,
        found.of_norms[0],
    )  # fmt: skip
    torch.mm(found.to_attended, block.output, out=to_normed)
    sight = places.sight(is_global, settings)
    attention_for(kept.projected, heads).attend_backward(
        to_normed, kept.projected, kept.mixed, kept.log_sum, heads, sight, NO_DROPOUT, found.to_projected, None
    )
    return torch.mm(found.to_projected, block.qkv, out=to_normed)


def _finish(kept: _Kept, found: _Gradients) -> list[Tensor]:
    """Return the weight gradients of some layers, layer by layer."""
    gains = found.of_norms.sum(2).to(kept.wide.dtype)
    gradients = Block(
        qkv=weight_gradients(found.to_projected, kept.attended),
        output=weight_gradients(found.to_attended, kept.mixed),
        middle_gain=gains[:, 0],
        expand=weight_gradients(found.to_wide, kept.expanded),
        contract=weight_gradients(found.to_outputs, kept.active),
        last_gain=gains[:, 1],
    )
    return [gradient for layer in zip(*gradients, strict=True) for gradient in layer]
