"""What the fused stacks of all bodies share: weights by block, room for states, and layers in groups."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

GROUP = 2**32  # bytes of state gradients kept at a time: larger layers need smaller groups to fill the GPU
Block = TypeVar("Block")


class Room(Protocol):
    """Allocates a tensor (layers, …) of the states' type, unless another is asked for."""

    def __call__(self, layers: int, *shape: int, dtype: torch.dtype = ...) -> Tensor: ...


def into_blocks(kind: type[Block], weights: Sequence[Any]) -> list[Block]:
    """Return the weights of each block as a named tuple of this kind."""
    size = len(kind._fields)  # type: ignore[attr-defined]
    return [kind(*weights[start : start + size]) for start in range(0, len(weights), size)]


def part(tensors: Block, layers: int | slice) -> Block:
    """Return a named tuple of tensors (layers, …) for one layer, or for some."""
    return type(tensors)(*(tensor[layers] for tensor in tensors))  # type: ignore[attr-defined]


def needs_gradient(tensors: Sequence[Tensor]) -> bool:
    """Return whether a backward pass may follow, for which states have to be kept."""
    return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def room_like(states: Tensor, keeps: bool) -> Room:
    """Return what allocates buffers for all layers or, if nothing is kept, for one layer that all layers reuse."""

    def room(layers: int, *shape: int, dtype: torch.dtype = states.dtype) -> Tensor:
        held = torch.empty(layers if keeps else 1, *shape, dtype=dtype, device=states.device)
        return held.expand(layers, *shape)

    return room


def group_layers(layers: int, size: int) -> list[slice]:
    """Return groups of layers whose state gradients fit in GROUP bytes; `size` is that of one layer.

    Only the first group may be smaller than the others.
    """
    together = max(1, GROUP // size)
    return [slice(max(0, stop - together), stop) for stop in range(layers, 0, -together)][::-1]
