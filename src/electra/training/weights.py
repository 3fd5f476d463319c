"""The trained weights of a module as one flat vector, their gradient as another.

Whatever is done with all weights (a norm, an update, a cast, a sum over processes) is then one operation instead of
hundreds.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

ALIGNED = 64  # numbers: tensors start at addresses that the fastest loads can use


class Group(NamedTuple):
    """Settings that some weights share; they are adjacent in the vector."""

    decay: float
    factor: float  # multiple of the learning rate
    matrix: tuple[int, int] | None = None  # the shape of each, if they are matrices for Muon, without gaps in between

    def matrices(self, part: Tensor) -> Tensor:
        """View the group's part of a vector as matrices (N, rows, columns)."""
        assert self.matrix
        rows, columns = self.matrix
        count = len(part) // (rows * columns)
        return part[: count * rows * columns].view(count, rows, columns)


GroupOf = Callable[[str, nn.Parameter], Group]


class Weights:
    """A module's weights, group by group, and the copies that the forward pass uses.

    The module's parameters become views of the vector. With a `working` type, the forward pass uses copies of that
    type, made once per update rather than at each use.
    """

    def __init__(self, module: nn.Module, group_of: GroupOf, working: torch.dtype | None) -> None:
        self.module = module
        trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self.group_of = {name: group_of(name, weight) for name, weight in trained.items()}
        self.groups, self.starts = _lay_out(trained, self.group_of)
        self.shapes = {name: trained[name].shape for name in self.starts}
        first = next(iter(trained.values()))
        size = max(part.stop for part in self.groups.values())
        self.values = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.gradient = torch.zeros_like(self.values)
        for name, view in self.views(self.values).items():
            view.copy_(trained[name].detach())
            trained[name].data = view
        self.copies = _Copies(self, trained, working) if working else None
        self._seen = list(self.copies.trained if self.copies else (trained[name] for name in self.starts))

    @property
    def working(self) -> Tensor:
        """The vector of weights that the forward pass uses."""
        return self.copies.vector if self.copies else self.values

    def views(self, vector: Tensor) -> dict[str, Tensor]:
        """Return the parts of a vector with one number per weight, by the weights' names."""
        places = ((name, start, self.shapes[name]) for name, start in self.starts.items())
        return {name: vector[start : start + shape.numel()].view(shape) for name, start, shape in places}

    def call(self, *inputs: Any) -> Any:
        """Call the module with the weights that the forward pass uses."""
        with self._used():
            return self.module(*inputs)

    def _used(self) -> AbstractContextManager[None]:
        return self.copies.replaced() if self.copies else nullcontext()

    def take_gradient(self, loss: Tensor, first: bool) -> None:
        """Compute the gradient of a loss of `call`: overwrite the last update's if it is the first, else add to it."""
        with self._used():  # a part of the forward pass may run again, to save memory
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
        """Update the copies of the trained weights, and of the frozen ones if asked to."""
        if self.copies:
            self.copies.vector.copy_(self.values)
            for own, copy in self.copies.frozen if frozen else ():
                copy.copy_(own)


class _Copies:
    """Copies of another type that temporarily replace a module's parameters."""

    def __init__(self, weights: Weights, trained: dict[str, nn.Parameter], working: torch.dtype) -> None:
        self.vector = weights.values.to(working)
        views = {name: nn.Parameter(view) for name, view in weights.views(self.vector).items()}
        self.trained = views.values()
        copies = {id(trained[name]): copy for name, copy in views.items()}
        others = [own for own in weights.module.parameters() if id(own) not in copies]
        self.frozen = [(own, nn.Parameter(own.detach().to(working), requires_grad=False)) for own in others]
        copies |= {id(own): copy for own, copy in self.frozen}
        # torch.func.functional_call would not restore the weights of a module that two others share.
        self.places = [
            (owner, name, own, copies[id(own)])
            for owner in weights.module.modules()
            for name, own in owner._parameters.items()
            if own is not None
        ]

    @contextmanager
    def replaced(self) -> Iterator[None]:
        try:
            for owner, name, _, copy in self.places:
                owner._parameters[name] = copy
            yield
        finally:
            for owner, name, own, _ in self.places:
                owner._parameters[name] = own


def _lay_out(trained: dict[str, nn.Parameter], group_of: dict[str, Group]) -> tuple[dict[Group, slice], dict[str, int]]:
    """Return each group's part of the vector, and where each weight starts."""
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
