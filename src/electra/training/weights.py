"""The trained weights of a module in one long vector, their gradient in another.

What concerns all weights, such as a norm, an update, a cast or a sum over processes, is then one operation and not
hundreds.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

ALIGNED = 64  # numbers: every tensor begins at an address that the fastest loads can use


class Group(NamedTuple):
    """What some weights have in common, which lie side by side for it."""

    decay: float
    factor: float  # multiple of the learning rate
    matrix: tuple[int, int] | None = None  # the shape of the matrices that they are, nothing lying between them

    def matrices(self, part: Tensor) -> Tensor:
        """See the group's part of a vector as the matrices (N, rows, columns) that it holds."""
        assert self.matrix
        rows, columns = self.matrix
        count = len(part) // (rows * columns)
        return part[: count * rows * columns].view(count, rows, columns)


GroupOf = Callable[[str, nn.Parameter], Group]


class Weights:
    """A module's weights, group after group, and what the forward pass sees of them.

    The module's parameters become views of the vector. With a `working` type, the forward pass gets copies of that type
    instead, made once an update rather than at each use.
    """

    def __init__(self, module: nn.Module, group_of: GroupOf, working: torch.dtype | None) -> None:
        self.module = module
        trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self.group_of = {name: group_of(name, weight) for name, weight in trained.items()}
        self.groups, self.starts = _lay_out(trained, self.group_of)
        self.shapes = {name: trained[name].shape for name in self.starts}
        first = next(iter(trained.values()))
        self.values = torch.zeros(
            max(part.stop for part in self.groups.values()), dtype=first.dtype, device=first.device
        )
        self.gradient = torch.zeros_like(self.values)
        for name, view in self.views(self.values).items():
            view.copy_(trained[name].detach())
            trained[name].data = view
        self.copies = _Copies(self, trained, working) if working else None
        self._seen = list(self.copies.trained if self.copies else (trained[name] for name in self.starts))

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Name the parts of a vector that has a number for each weight."""
        return {
            name: vector[start : start + self.shapes[name].numel()].view(self.shapes[name])
            for name, start in self.starts.items()
        }

    def call(self, *inputs: Any) -> Any:
        """Call the module on what the forward pass sees of the weights."""
        with self.copies.standing_in() if self.copies else nullcontext():
            return self.module(*inputs)

    def take_gradient(self, loss: Tensor, first: bool) -> None:
        """Take the gradient of a loss that `call` led to: in place of the last update's, or on top of what is there."""
        found = torch.autograd.grad(loss, self._seen, allow_unused=True)
        views = list(self.views(self.gradient).values())
        pairs = [(view, part) for view, part in zip(views, found, strict=True) if part is not None]
        used, parts = [view for view, _ in pairs], [part for _, part in pairs]
        if not first:
            torch._foreach_add_(used, parts)
            return
        torch._foreach_copy_(used, parts)
        for view, part in zip(views, found, strict=True):
            if part is None:
                view.zero_()

    @torch.no_grad()
    def refresh(self, frozen: bool = False) -> None:
        """Let the forward pass see trained weights that have changed, and frozen ones where those may have too."""
        if self.copies:
            self.copies.vector.copy_(self.values)
            for own, copy in self.copies.frozen if frozen else ():
                copy.copy_(own)


class _Copies:
    """Weights of another type that stand in for a module's own."""

    def __init__(self, weights: Weights, trained: dict[str, nn.Parameter], working: torch.dtype) -> None:
        self.vector = weights.values.to(working)
        views = {name: nn.Parameter(view) for name, view in weights.views(self.vector).items()}
        self.trained = views.values()
        copies = {id(trained[name]): copy for name, copy in views.items()}
        others = [own for own in weights.module.parameters() if id(own) not in copies]
        self.frozen = [(own, nn.Parameter(own.detach().to(working), requires_grad=False)) for own in others]
        copies |= {id(own): copy for own, copy in self.frozen}
        # A module that two others share comes once here: torch.func.functional_call would not give its weights back.
        self.places = [
            (owner, name, own, copies[id(own)])
            for owner in weights.module.modules()
            for name, own in owner._parameters.items()
            if own is not None
        ]

    @contextmanager
    def standing_in(self) -> Iterator[None]:
        try:
            for owner, name, _, copy in self.places:
                owner._parameters[name] = copy
            yield
        finally:
            for owner, name, own, _ in self.places:
                owner._parameters[name] = own


def _lay_out(trained: dict[str, nn.Parameter], group_of: dict[str, Group]) -> tuple[dict[Group, slice], dict[str, int]]:
    """Give each group its part of the vector, and each weight the place where it begins."""
    groups, starts, end = {}, {}, 0
    for group in dict.fromkeys(group_of.values()):
        start = end
        for name in (name for name in trained if group_of[name] == group):
            starts[name] = end
            end += trained[name].numel() if group.matrix else _aligned(trained[name].numel())
        end = _aligned(end)
        groups[group] = slice(start, end)
    return groups, starts


def _aligned(count: int) -> int:
    return -(-count // ALIGNED) * ALIGNED
