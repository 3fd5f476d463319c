"""AdamW (the original's and the standard one) and Muon on flat vectors; updates that are not finite are skipped."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from electra.config.schema import TrainConfig
from electra.training.muon import Muon, block_matrices
from electra.training.streams import SideBySide
from electra.training.weights import ALIGNED, Group, Weights

NORM_PART = 2**16  # numbers whose squares a CPU sums at a time
PIECES = 32  # a group is cut into so many, so that a small one occupies all of the GPU

Rate = Callable[[str], float]


class Optimizer:
    """m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  w ← w - lr (m / (√v + ε) + decay · w).

    The standard AdamW divides m and v by 1 - βᵗ; the original, like BERT, does not: it equals the standard one at
    t = ∞. Muon is the standard one except for the matrices inside the blocks: m ← 0.95 m + 0.05 g;
    w ← w - lr (0.2 √(longer side) O(0.95 m + 0.05 g) + decay · w), where O makes a matrix orthogonal.
    Nothing here waits for the device, so that an update can be a CUDA graph.
    """

    def __init__(self, weights: Weights, config: TrainConfig) -> None:
        self.weights, self.config = weights, config
        device = weights.values.device
        self.side_by_side = SideBySide(device)
        self.means, self.squares = torch.zeros_like(weights.values), torch.zeros_like(weights.values)
        self.rate = torch.zeros((), device=device)
        self.parts = torch.ones((), device=device)  # weights of the micro-batches in the gradient, summed
        self.norm = torch.zeros((), device=device)
        self.updates = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)  # updates skipped because the gradient was not finite
        self.skipped_in_a_row = torch.zeros((), device=device)

    def count(self, weight: float | Tensor, first: bool) -> None:
        """Add the weight of a micro-batch, after a reset if it is the first of an update."""
        if first:
            self.parts.zero_()
        self.parts.add_(weight)

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights with the accumulated gradient, unless it is not finite."""
        weights, config = self.weights, self.config
        torch.div(_norm(weights.gradient), self.parts, out=self.norm)
        bad = (~self.norm.isfinite()).float()
        # Dividing by `scale` gives the mean over the micro-batches, with a norm of at most `clip_norm`.
        scale = self.parts * ((self.norm + 1e-6) / config.clip_norm).clamp(min=1.0)
        self.side_by_side(
            partial(self._muon if group.matrix else self._adam, group, part, scale, bad)
            for group, part in weights.groups.items()
        )
        self.updates.add_(1 - bad)
        self.skipped.add_(bad)
        self.skipped_in_a_row.add_(1).mul_(bad)
        weights.refresh()

    def _adam(self, group: Group, part: slice, scale: Tensor, bad: Tensor) -> None:
        weights, config = self.weights, self.config
        step = torch.full_like(self.updates, 1e9) if config.optimizer == "electra" else self.updates
        vectors = (weights.values, weights.gradient, self.means, self.squares)
        values, gradients, means, squares = (_pieces(vector[part]) for vector in vectors)
        adamw(
            values, gradients, means, squares, [], list(step.repeat(len(values)).unbind()), fused=True, maximize=False,
            amsgrad=False, grad_scale=scale, found_inf=bad, lr=self.rate * group.factor, weight_decay=group.decay,
            beta1=config.adam_beta1, beta2=config.adam_beta2, eps=config.adam_eps,
        )  # fmt: skip

    def _muon(self, group: Group, part: slice, scale: Tensor, bad: Tensor) -> None:
        weights = self.weights
        vectors = (weights.values, weights.gradient, self.means, weights.working)
        Muon(scale, self.rate, bad, group.factor, group.decay).update(*(group.matrices(v[part]) for v in vectors))

    def changes(self) -> list[Tensor]:
        """Return the tensors that a step writes to."""
        weights = self.weights
        counts = [self.norm, self.updates, self.skipped, self.skipped_in_a_row]
        copies = [weights.copies.vector] if weights.copies else []
        return [weights.values, weights.gradient, *copies, self.means, self.squares, *counts]

    def tensors(self) -> dict[str, Tensor]:
        """Return the state that the next update depends on besides the weights, as live tensors by name."""
        weights = self.weights
        means = {f"mean.{name}": view for name, view in weights.views(self.means).items()}
        views = weights.views(self.squares).items()
        squares = {f"square.{name}": view for name, view in views if not weights.group_of[name].matrix}  # not of Muon
        return {"updates": self.updates, **means, **squares}


def build_optimizer(
    module: nn.Module, config: TrainConfig, working: torch.dtype | None = None, rate: Rate = lambda name: 1.0
) -> Optimizer:
    """Lay out a module's weights and make their optimizer; vectors (biases, layer norms) do not decay.

    `working` is the type that the forward pass computes in, where it differs from that of the weights; `rate` maps a
    parameter's name to the multiple of the learning rate that it learns with.
    """
    stacked = block_matrices(module) if config.optimizer == "muon" else {}

    def group(name: str, weight: nn.Parameter) -> Group:
        decay = config.weight_decay if weight.dim() > 1 else 0.0
        matrix = (len(weight) // stacked[name], weight.size(1)) if name in stacked else None
        return Group(decay, rate(name), matrix)

    return Optimizer(Weights(module, group, working), config)


def _norm(gradient: Tensor) -> Tensor:
    """Return a vector's norm; on a CPU from the norms of parts, since a long sum of squares loses digits there."""
    parts = (gradient,) if gradient.is_cuda else torch.split(gradient, NORM_PART)
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in parts]))
    return norm


def _pieces(group: Tensor) -> list[Tensor]:
    if not group.is_cuda:
        return [group]
    size = -(-len(group) // (PIECES * ALIGNED)) * ALIGNED
    return list(torch.split(group, size))
