"""AdamW (the original's and the standard one) and Muon; updates that are not finite are skipped."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from electra.config.schema import TrainConfig
from electra.training.muon import Muon, block_matrices
from electra.training.processes import Processes
from electra.training.streams import SideBySide
from electra.training.weights import ALIGNED, Group, GroupOf, Weights, up_to

NORM_PART = 2**16  # numbers whose squares a CPU sums at a time
PIECES = 32  # a group is cut into so many, so that a small one occupies all of the GPU

Rate = Callable[[str], float]


class Optimizer(ABC):
    """m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  w ← w - lr (m / (√v + ε) + decay · w).

    The standard AdamW divides m and v by 1 - βᵗ; the original, like BERT, does not: it equals the standard one at
    t = ∞. Muon is the standard one except for the matrices inside the blocks: m ← 0.95 m + 0.05 g;
    w ← w - lr (0.2 √(longer side) O(0.95 m + 0.05 g) + decay · w), where O makes a matrix orthogonal.
    Nothing here waits for the device, so that an update can be a CUDA graph.
    """

    def __init__(self, config: TrainConfig, processes: Processes, device: torch.device) -> None:
        self.config, self.processes = config, processes
        self.rate = torch.zeros((), device=device)
        self.parts = torch.ones((), device=device)  # weights of the micro-batches in the gradient, summed
        self.norm = torch.zeros((), device=device)
        self.updates = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)  # updates skipped because the gradient was not finite
        self.skipped_in_a_row = torch.zeros((), device=device)

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Return by name what the next update depends on besides the weights; all processes of a machine call it."""

    @abstractmethod
    def adopt(self, tensors: dict[str, Tensor]) -> None:
        """Continue from a state as `tensors` returns it, and from weights that were changed in place."""

    def fill(self, tensor: Tensor, complete: Tensor) -> None:
        """Fill a weight or a tensor of the state, or this process's share of it, from the complete one."""
        tensor.copy_(complete)

    @abstractmethod
    def _gradient_norm(self) -> Tensor:
        """Return the norm of the accumulated gradient of all weights."""

    @abstractmethod
    def _update(self, scale: Tensor, bad: Tensor) -> None:
        """Update all weights with the gradient divided by `scale`; change nothing if it is `bad`."""

    def count(self, weight: float | Tensor, first: bool) -> None:
        """Add the weight of a micro-batch, after a reset if it is the first of an update."""
        if first:
            self.parts.zero_()
        self.parts.add_(weight)

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights with the accumulated gradient, unless it is not finite."""
        torch.div(self._gradient_norm(), self.parts, out=self.norm)
        bad = (~self.norm.isfinite()).float()
        # Dividing by `scale` gives the mean over the micro-batches, with a norm of at most `clip_norm`.
        scale = self.parts * ((self.norm + 1e-6) / self.config.clip_norm).clamp(min=1.0)
        self._update(scale, bad)
        self.updates.add_(1 - bad)
        self.skipped.add_(bad)
        self.skipped_in_a_row.add_(1).mul_(bad)

    def _adam(self, group: Group, parts: Sequence[list[Tensor]], scale: Tensor, bad: Tensor) -> None:
        """Update tensors of a group: `parts` are values, gradients and running means of gradients and squares."""
        config, (values, gradients, means, squares) = self.config, parts
        step = torch.full_like(self.updates, 1e9) if config.optimizer == "electra" else self.updates
        adamw(
            values, gradients, means, squares, [], list(step.repeat(len(values)).unbind()), fused=True, maximize=False,
            amsgrad=False, grad_scale=scale, found_inf=bad, lr=self.rate * group.factor, weight_decay=group.decay,
            beta1=config.adam_beta1, beta2=config.adam_beta2, eps=config.adam_eps,
        )  # fmt: skip


class VectorOptimizer(Optimizer):
    """Updates the vector of all weights.

    The processes of a machine divide Muon's groups, and with `sharding = optimizer` all groups: each updates its share
    and keeps only that share of m and v.
    """

    def __init__(self, weights: Weights, config: TrainConfig, processes: Processes) -> None:
        super().__init__(config, processes, weights.values.device)
        self.weights = weights
        self.side_by_side = SideBySide(weights.values.device)
        self.own = {group: self._own(group, part) for group, part in weights.groups.items()}
        self.kept = _adjacent(self.own)
        self.means = weights.values.new_zeros(max(part.stop for part in self.kept.values()))
        self.squares = torch.zeros_like(self.means)

    def _gradient_norm(self) -> Tensor:
        return norm(self.weights.gradient)

    def _update(self, scale: Tensor, bad: Tensor) -> None:
        self.side_by_side(
            partial(self._muon if group.matrix else self._adam_on_vectors, group, part, scale, bad)
            for group, part in self.own.items()
        )
        for group in filter(self._is_divided, self.own):
            self.processes.collect(self._shares(group, self.weights.values))
        self.weights.refresh()

    def _adam_on_vectors(self, group: Group, part: slice, scale: Tensor, bad: Tensor) -> None:
        states = (vector[self.kept[group]] for vector in (self.means, self.squares))
        parts = (self.weights.values[part], self.weights.gradient[part], *states)
        self._adam(group, [_pieces(part) for part in parts], scale, bad)

    def _muon(self, group: Group, part: slice, scale: Tensor, bad: Tensor) -> None:
        weights = self.weights
        means = self.means[self.kept[group]]
        parts = (weights.values[part], weights.gradient[part], means, weights.working[part])
        Muon(scale, self.rate, bad, group.factor, group.decay).update(*map(group.matrices, parts))

    def _is_divided(self, group: Group) -> bool:
        """Return whether the processes of a machine update a share of a group each."""
        return self.processes.neighbors > 1 and (group.matrix is not None or self.config.sharding == "optimizer")

    def _own(self, group: Group, part: slice) -> slice:
        """Return the part of the vector that this process updates of a group."""
        return group.share(part, self.processes.place, self.processes.neighbors) if self._is_divided(group) else part

    def _shares(self, group: Group, vector: Tensor) -> Tensor:
        """Return all processes' shares of a group in a vector with one number per weight."""
        start, own, count = self.weights.groups[group].start, self.own[group], self.processes.neighbors
        return vector[start : start + count * (own.stop - own.start)]

    def changes(self) -> list[Tensor]:
        """Return the tensors that a step writes to."""
        weights = self.weights
        counts = [self.norm, self.updates, self.skipped, self.skipped_in_a_row]
        copies = [weights.copies.vector] if weights.copies else []
        return [weights.values, weights.gradient, *copies, self.means, self.squares, *counts]

    def tensors(self) -> dict[str, Tensor]:
        weights = self.weights
        means = {f"mean.{name}": view for name, view in weights.views(self._collected(self.means)).items()}
        views = weights.views(self._collected(self.squares)).items()
        squares = {f"square.{name}": view for name, view in views if not weights.group_of[name].matrix}  # not of Muon
        return {"updates": self.updates, **means, **squares}

    @torch.no_grad()
    def adopt(self, tensors: dict[str, Tensor]) -> None:
        self.updates.copy_(tensors["updates"])
        for kind, vector in (("mean", self.means), ("square", self.squares)):
            full = torch.zeros_like(self.weights.values)
            for name, view in self.weights.views(full).items():
                if (key := f"{kind}.{name}") in tensors:
                    view.copy_(tensors[key])
            for group, own in self.own.items():
                vector[self.kept[group]] = full[own]
        self.weights.refresh(frozen=True)

    def _collected(self, state: Tensor) -> Tensor:
        """Return a state with one number per weight, from the shares of all processes of the machine."""
        if self.own == self.weights.groups:
            return state
        full = torch.zeros_like(self.weights.values)
        for group, own in self.own.items():
            full[own] = state[self.kept[group]]
            if self._is_divided(group):
                self.processes.collect(self._shares(group, full))
        return full


def build_optimizer(
    module: nn.Module,
    config: TrainConfig,
    working: torch.dtype | None = None,
    rate: Rate = lambda name: 1.0,
    processes: Processes | None = None,
) -> VectorOptimizer:
    """Lay out a module's weights and make their optimizer.

    `working` is the type that the forward pass computes in, where it differs from that of the weights; `rate` maps a
    parameter's name to the multiple of the learning rate that it learns with.
    """
    processes = processes or Processes(0, 1, torch.device("cpu"))
    weights = Weights(module, grouping(module, config, rate), working, processes.neighbors)
    return VectorOptimizer(weights, config, processes)


def grouping(module: nn.Module, config: TrainConfig, rate: Rate) -> GroupOf:
    """Return the function from a weight of a module to its group; vectors (biases, layer norms) do not decay."""
    stacked = block_matrices(module) if config.optimizer == "muon" else {}

    def group(name: str, weight: nn.Parameter) -> Group:
        decay = config.weight_decay if weight.dim() > 1 else 0.0
        matrix = (len(weight) // stacked[name], weight.size(1)) if name in stacked else None
        return Group(decay, rate(name) * (config.adam_rate if stacked and not matrix else 1.0), matrix)

    return group


def _adjacent(parts: dict[Group, slice]) -> dict[Group, slice]:
    """Return where each group's part is in a vector of only these parts."""
    sizes = [up_to(ALIGNED, part.stop - part.start) for part in parts.values()]
    starts = accumulate(sizes, initial=0)
    return {
        group: slice(start, start + part.stop - part.start)
        for (group, part), start in zip(parts.items(), starts, strict=False)
    }


def norm(gradient: Tensor) -> Tensor:
    """Return a vector's norm; on a CPU from the norms of parts, since a long sum of squares loses digits there."""
    parts = (gradient,) if gradient.is_cuda else torch.split(gradient, NORM_PART)
    found: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in parts]))
    return found


def _pieces(group: Tensor) -> list[Tensor]:
    if not group.is_cuda:
        return [group]
    size = -(-len(group) // (PIECES * ALIGNED)) * ALIGNED
    return list(torch.split(group, size))
