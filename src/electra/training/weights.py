"""The trained weights of a module as one flat vector, their gradient as another.

Whatever is done with all weights (a norm, an update, a cast, a sum over processes) is then one operation instead of
hundreds.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
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

    @property
    def unit(self) -> int:
        """The numbers that stay together when the group is divided: a matrix, or a few numbers."""
        return math.prod(self.matrix) if self.matrix else ALIGNED

    def share(self, part: slice, place: int, places: int) -> slice:
        """Return one of equal shares of the group's part of a vector; only padding may be in none of them."""
        size = (part.stop - part.start) // (self.unit * places) * self.unit
        return slice(part.start + place * size, part.start + (place + 1) * size)


GroupOf = Callable[[str, nn.Parameter], Group]


class Weights:
    """A module's weights, group by group, and the copies that the forward pass uses.

    The module's parameters become views of the vector. With a `working` type, the forward pass uses copies of that
    type, made once per update rather than at each use. Each group can be divided into as many equal shares as there
    are `places`.
    """

    def __init__(self, module: nn.Module, group_of: GroupOf, working: torch.dtype | None, places: int = 1) -> None:
        self.module = module
        trained = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self.group_of = {name: group_of(name, weight) for name, weight in trained.items()}
        self.groups, self.starts = _lay_out(trained, self.group_of, places)
        self.shapes = {name: trained[name].shape for name in self.starts}
        first = next(iter(trained.values()))
        size = max(part.stop for part in self.groups.values())
        self.values = torch.zeros(size, dtype=first.dtype, device=first.device)
        self.gradient = torch.zeros_like(self.values)
        self._gradients = list(self.views(self.gradient).values())
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
        found = self.compute_gradient(loss)
        self.write_gradient(range(len(found)), found, first)

    def compute_gradient(
        self, loss: Tensor, arrived: Callable[[int, Tensor], None] | None = None
    ) -> Sequence[Tensor | None]:
        """Return the gradient of each weight, in the order of the vector; `arrived` is called as soon as one is known.

        A weight that the loss does not depend on has none.
        """
        seen: Sequence[Any] = self._seen
        hooks = [own.register_hook(partial(arrived, number)) for number, own in enumerate(seen)] if arrived else []
        try:
            with self._used():  # a part of the forward pass may run again, to save memory
                return torch.autograd.grad(loss, self._seen, allow_unused=True)
        finally:
            for hook in hooks:
                hook.remove()

    def write_gradient(self, numbers: Iterable[int], found: Sequence[Tensor | None], first: bool) -> None:
        """Write some weights' gradients to the vector, or add them to it."""
        chosen = [(self._gradients[number], found[number]) for number in numbers]
        pairs = [(view, part) for view, part in chosen if part is not None]
        used, parts = [view for view, _ in pairs], [part for _, part in pairs]
        if pairs:
            (torch._foreach_copy_ if first else torch._foreach_add_)(used, parts)
        for view, part in chosen:
            if part is None and first:
                view.zero_()

    def complete(self) -> None:
        """Do nothing: every process has all weights."""

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


def _lay_out(
    trained: dict[str, nn.Parameter], group_of: dict[str, Group], places: int
) -> tuple[dict[Group, slice], dict[str, int]]:
    """Return each group's part of the vector, and where each weight starts."""
    groups, starts, end = {}, {}, 0
    for group in dict.fromkeys(group_of.values()):
        start = end
        for name in (name for name in trained if group_of[name] == group):
            starts[name] = end
            end += trained[name].numel() if group.matrix else up_to(ALIGNED, trained[name].numel())
        end = start + up_to(ALIGNED, up_to(group.unit * places, end - start))
        groups[group] = slice(start, end)
    return groups, starts


def up_to(unit: int, count: int) -> int:
    """Return the smallest multiple of a unit that is not below a count."""
    return -(-count // unit) * unit
