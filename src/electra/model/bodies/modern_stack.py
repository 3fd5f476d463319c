"""All blocks of the body `modern` as one operation with a custom backward pass.

Both halves of a block are x + branch(norm(x)), so the product that ends a branch adds the residual, and the backward
pass of the norm adds the residual's gradient. As in `electra_stack`, the weight gradients of many layers are computed
at once. Shapes: B sequences, L tokens, T = B · L, H hidden size, F feed-forward size, D head size.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from electra.model.bodies.electra_stack import cut_into_groups
from electra.model.kernels import gate, prenorm, rotary
from electra.model.kernels.attention import Drop, Sight
from electra.model.kernels.launch import sum_rows
from electra.model.kernels.long_attention import attention_for
from electra.model.kernels.products import weight_gradients

NO_DROPOUT = Drop()
Table = tuple[Tensor, Tensor]  # cosines and sines (positions, D / 2)


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
    """Where tokens are: positions in their texts, what bounds these, and the rotations of positions."""

    bounds: Tensor | None  # (2, B, L); None: a sequence is one text
    positions: Tensor | None  # (B, L)
    global_cos: Tensor
    global_sin: Tensor
    local_cos: Tensor
    local_sin: Tensor

    def table(self, is_global: bool) -> Table:
        """Return the rotations of a kind of block."""
        return (self.global_cos, self.global_sin) if is_global else (self.local_cos, self.local_sin)


class Block(NamedTuple):
    """The weights of a block in order of use, or their gradients for several layers."""

    attention_gain: Any  # None in the first block, whose input is normalized already
    qkv: Tensor
    output: Tensor
    feed_forward_gain: Tensor
    expand: Tensor
    contract: Tensor


class _Kept(NamedTuple):
    """Tensors kept for the backward pass, for all layers or for one."""

    states: Tensor  # (layers + 1, T, H), the input of each block, then the output of the last one
    attended: Tensor  # (layers, T, H), the output of the first norm
    expanded: Tensor  # (layers, T, H), the output of the second norm
    moments: Tensor  # (layers, 2, 2, T), means and inverse deviations of the norms
    projected: Tensor  # (layers, B, L, 3H), queries and keys rotated
    log_sum: Tensor  # (layers, B · heads · L)
    mixed: Tensor  # (layers, T, H)
    middle: Tensor  # (layers, T, H), between the two halves
    wide: Tensor  # (layers, T, 2F)
    active: Tensor  # (layers, T, F)

    def of(self, layers: int | slice) -> "_Kept":
        return _Kept(*(tensor[layers] for tensor in self))


class _Gradients(NamedTuple):
    """Inputs of the weight gradients of some layers: gradients of products, and partial sums for the gains."""

    to_projected: Tensor  # (layers, T, 3H)
    to_attended: Tensor  # (layers, T, H)
    to_wide: Tensor  # (layers, T, 2F)
    to_outputs: Tensor  # (layers, T, H), of the blocks
    of_norms: Tensor  # (layers, 2, programs, H)

    def of(self, layer: int) -> "_Gradients":
        return _Gradients(*(tensor[layer] for tensor in self))


class _Stack(torch.autograd.Function):
    """Twice per block, x + branch(norm(x)).

    The branches are W_o attend(rotate(W_qkv x)) and W_2 (gelu(a) · b) with [a, b] = W_1 x. The first norm is skipped.
    """

    @staticmethod
    def forward(context: Any, x: Tensor, settings: Settings, keeps: bool, *tensors: Tensor | None) -> Tensor:
        places, blocks = _unpack(tensors)
        kept = _make_room(x, blocks, settings, keeps)
        kept.states[0] = x.flatten(0, 1)
        for layer, block in enumerate(blocks):
            _forward(layer, block, kept.of(layer), kept.states[layer + 1], places, settings)
        context.save_for_backward(*kept, *tensors)
        context.settings = settings
        return kept.states[-1].view_as(x)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved, settings = context.saved_tensors, context.settings
        count = len(_Kept._fields)
        kept, (places, blocks) = _Kept(*saved[:count]), _unpack(saved[count:])
        to_x = gradient.contiguous().flatten(0, 1)
        to_weights: list[Tensor | None] = []
        size = sum(tensor[0].nbytes for tensor in (kept.projected, kept.mixed, kept.middle, kept.wide))  # as theirs
        for group in cut_into_groups(len(blocks), size):
            found = _make_room_for_gradients(kept.of(group))
            found.to_outputs[-1] = to_x
            for layer in reversed(range(group.start, group.stop)):
                at = layer - group.start
                to_x = found.to_outputs[at - 1] if at else torch.empty_like(to_x)
                _backward(layer, blocks[layer], kept.of(layer), found.of(at), places, settings, to_x)
            to_weights = _finish(kept.of(group), found) + to_weights
            del found  # free the memory before the next group allocates its own
        to_weights[0] = None  # the gain that the first block does not have
        return (to_x.view_as(gradient), None, None, *(None for _ in places), *to_weights)


def run_blocks(x: Tensor, weights: Sequence[Tensor | None], places: Places, settings: Settings) -> Tensor:
    """Run states (B, L, H) through all blocks; `weights` are those of each block, in the order of `Block`."""
    keeps = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in (x, *weights))
    out: Tensor = _Stack.apply(x, settings, keeps, *places, *weights)  # type: ignore[no-untyped-call]
    return out


def _unpack(tensors: Sequence[Any]) -> tuple[Places, list[Block]]:
    count, size = len(Places._fields), len(Block._fields)
    weights = tensors[count:]
    return Places(*tensors[:count]), [Block(*weights[at : at + size]) for at in range(0, len(weights), size)]


def _make_room(x: Tensor, blocks: Sequence[Block], settings: Settings, keeps: bool) -> _Kept:
    """Allocate buffers for all layers, or, if nothing is kept, for one layer that all layers reuse."""
    (sequences, tokens, hidden), layers, wide = x.shape, len(blocks), len(blocks[0].expand)
    total = sequences * tokens

    def room(layers: int, *shape: int, dtype: torch.dtype = x.dtype) -> Tensor:
        held = torch.empty(layers if keeps else 1, *shape, dtype=dtype, device=x.device)
        return held.expand(layers, *shape)

    return _Kept(
        states=room(layers + 1, total, hidden),
        attended=room(layers, total, hidden),
        expanded=room(layers, total, hidden),
        moments=room(layers, 2, 2, total, dtype=torch.float32),
        projected=room(layers, sequences, tokens, 3 * hidden),
        log_sum=room(layers, total * settings.heads, dtype=torch.float32),
        mixed=room(layers, total, hidden),
        middle=room(layers, total, hidden),
        wide=room(layers, total, wide),
        active=room(layers, total, wide // 2),
    )


def _forward(layer: int, block: Block, kept: _Kept, out: Tensor, places: Places, settings: Settings) -> None:
    """Run states through a block; if nothing is kept, `out` overwrites its input."""
    x, heads, is_global = kept.states, settings.heads, settings.is_global(layer)
    if layer == 0:
        kept.attended.copy_(x)
    else:
        prenorm.prenorm(x, block.attention_gain, settings.eps, kept.attended, kept.moments[0])
    torch.mm(kept.attended, block.qkv.t(), out=kept.projected.flatten(0, 1))
    rotary.rotate(kept.projected, heads, places.positions, places.table(is_global))
    sight = Sight(places.bounds, 0 if is_global else settings.reach)
    attention_for(kept.projected, heads).attend(kept.projected, heads, sight, NO_DROPOUT, kept.mixed, kept.log_sum)
    torch.addmm(x, kept.mixed, block.output.t(), out=kept.middle)
    prenorm.prenorm(kept.middle, block.feed_forward_gain, settings.eps, kept.expanded, kept.moments[1])
    torch.mm(kept.expanded, block.expand.t(), out=kept.wide)
    gate.gate(kept.wide, kept.active)
    torch.addmm(kept.middle, kept.active, block.contract.t(), out=out)


def _make_room_for_gradients(kept: _Kept) -> _Gradients:
    (layers, total, hidden), device = kept.middle.shape, kept.middle.device
    return _Gradients(
        to_projected=torch.empty_like(kept.projected).flatten(1, 2),
        to_attended=torch.empty_like(kept.middle),
        to_wide=torch.empty_like(kept.wide),
        to_outputs=torch.empty_like(kept.middle),
        of_norms=kept.moments.new_zeros(layers, 2, prenorm.backward_programs(total, hidden, device), hidden),
    )


def _backward(
    layer: int, block: Block, kept: _Kept, found: _Gradients, places: Places, settings: Settings, to_x: Tensor
) -> None:
    """Write the gradient of a block's input to `to_x`, and the inputs of its weight gradients to `found`."""
    heads, is_global = settings.heads, settings.is_global(layer)
    to_active = found.to_outputs @ block.contract
    gate.gate_backward(to_active, kept.wide, found.to_wide)
    to_normed = found.to_wide @ block.expand
    prenorm.prenorm_backward(
        to_normed, found.to_outputs, kept.middle, block.feed_forward_gain, kept.moments[1], found.to_attended,
        found.of_norms[1],
    )  # fmt: skip
    to_mixed = found.to_attended @ block.output
    sight = Sight(places.bounds, 0 if is_global else settings.reach)
    attention_for(kept.projected, heads).attend_backward(
        to_mixed, kept.projected, kept.mixed, kept.log_sum, heads, sight, NO_DROPOUT, found.to_projected, None
    )
    rotary.rotate(
        found.to_projected.view_as(kept.projected), heads, places.positions, places.table(is_global), back=True
    )
    if layer == 0:
        torch.addmm(found.to_attended, found.to_projected, block.qkv, out=to_x)
        return
    to_normed = found.to_projected @ block.qkv
    prenorm.prenorm_backward(
        to_normed, found.to_attended, kept.states, block.attention_gain, kept.moments[0], to_x, found.of_norms[0]
    )


def _finish(kept: _Kept, found: _Gradients) -> list[Tensor | None]:
    """Return the weight gradients of some layers, layer by layer."""
    layers, _, hidden = kept.middle.shape
    gains = sum_rows(found.of_norms.flatten(0, 1), kept.wide.dtype).view(layers, 2, hidden)
    gradients = Block(
        attention_gain=gains[:, 0],
        qkv=weight_gradients(found.to_projected, kept.attended),
        output=weight_gradients(found.to_attended, kept.mixed),
        feed_forward_gain=gains[:, 1],
        expand=weight_gradients(found.to_wide, kept.expanded),
        contract=weight_gradients(found.to_outputs, kept.active),
    )
    return [gradient for layer in zip(*gradients, strict=True) for gradient in layer]
