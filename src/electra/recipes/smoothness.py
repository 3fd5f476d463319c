"""A penalty on predictions that change near an input: the regularizer of SMART (Jiang et al., ACL 2020).

    R = max over |δ_i| ≤ ε |x_i| of ℓ(f(x + δ), f(x))

x_i are the embeddings of a text's tokens, f its predictions, ℓ the symmetric divergence of two predictions. δ is found
by one step uphill from a random place at the same distance; a nearer one would do as well, but be lost in bf16.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

RADIUS = 0.01  # ε
TINY = 1e-20


def roughness(embeddings: nn.Module, change: Callable[[], Tensor]) -> Tensor:
    """Return R. `change` computes predictions, with the embeddings as they are then, and compares them with f(x)."""
    with _moved(embeddings, lambda like: RADIUS * _along(torch.randn_like(like), like)) as moves:
        (uphill,) = torch.autograd.grad(change(), moves)
    with _moved(embeddings, lambda like: RADIUS * _along(uphill, like)):
        return change()


@contextmanager
def _moved(embeddings: nn.Module, move: Callable[[Tensor], Tensor]) -> Iterator[list[Tensor]]:
    """Move what the embeddings return; the list receives the move, a leaf of the graph."""
    moves: list[Tensor] = []

    def add(module: nn.Module, inputs: object, embedded: Tensor) -> Tensor:
        moves.append(move(embedded.detach()).requires_grad_())
        return embedded + moves[0]

    handle = embeddings.register_forward_hook(add)
    try:
        yield moves
    finally:
        handle.remove()


def _along(direction: Tensor, like: Tensor) -> Tensor:
    """Return the directions, each scaled to the length of its token's embedding."""
    ratio: Tensor = like.norm(dim=-1, keepdim=True) / direction.norm(dim=-1, keepdim=True).clamp(min=TINY)
    return direction * ratio
