"""AdamW, the original's and the standard one, and Muon over long vectors; what is not finite is left out."""

import re
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

from electra.config.schema import TrainConfig
from electra.training.muon import MOMENTUM, block_matrix, orthogonal_step
from electra.training.streams import SideBySide
from electra.training.weights import ALIGNED, Group, Weights

NORM_PART = 2**16  # numbers whose squares are summed in one go on a CPU
PIECES = 32  # that a group is cut into on a GPU: all of it works on a small group then

Factor = Callable[[str], float]  # from a weight's name to the multiple of the learning rate that it learns with


class Optimizer:
    """m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  w ← w - lr (m / (√v + ε) + decay · w).

    The standard AdamW divides m and v by 1 - βᵗ; the original, as BERT was trained, does not, which is the standard one
    after endless steps. Muon is the standard one, but for the matrices inside of the blocks: m ← 0.95 m + 0.05 g;
    w ← w - lr (0.2 √(longer side) O(0.95 m + 0.05 g) + decay · w), where O makes a matrix orthogonal.
    Nothing here waits for the device, so that a CUDA graph can hold an update.
    """

    def __init__(self, weights: Weights, config: TrainConfig) -> None:
        self.weights, self.config = weights, config
        device = weights.values.device
        self.side_by_side = SideBySide(device)
        self.means, self.squares = torch.zeros_like(weights.values), torch.zeros_like(weights.values)
        self.rate = torch.zeros((), device=device)
        self.parts = torch.ones((), device=device)  # micro-batches that the gradient is the sum of, by their weights
        self.norm = torch.zeros((), device=device)
        self.updates = torch.zeros((), device=device)
        self.skipped = torch.zeros((), device=device)  # updates left out because the gradient was not finite
        self.skipped_in_a_row = torch.zeros((), device=device)

    def count(self, weight: float | Tensor, first: bool) -> None:
        """Count a micro-batch whose gradient was taken by its weight: as the first of an update, or one more."""
        if first:
            self.parts.zero_()
        self.parts.add_(weight)

    @torch.no_grad()
    def step(self) -> None:
        """Update all weights with the gradient gathered since the last time, unless it is not finite."""
        weights, config = self.weights, self.config
        torch.div(_norm(weights.gradient), self.parts, out=self.norm)
        bad = (~self.norm.isfinite()).float()
        # The gradient is divided by `scale`: a mean over the micro-batches, of a norm of at most `clip_norm`.
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
        values, gradients, means, squares = (
            _pieces(vector[part]) for vector in (weights.values, weights.gradient, self.means, self.squares)
        )
        adamw(
            values,
            gradients,
            means,
            squares,
            [],
            list(step.repeat(len(values)).unbind()),
            fused=True,
            grad_scale=scale,
            found_inf=bad,
            amsgrad=False,
            beta1=config.adam_beta1,
            beta2=config.adam_beta2,
            lr=self.rate * group.factor,
            weight_decay=group.decay,
            eps=config.adam_eps,
            maximize=False,
        )

    def _muon(self, group: Group, part: slice, scale: Tensor, bad: Tensor) -> None:
        values, gradient, means = (
            group.matrices(vector[part]) for vector in (self.weights.values, self.weights.gradient, self.means)
        )
        gradient = (gradient / scale).nan_to_num_()
        means.lerp_(gradient, (1 - MOMENTUM) * (1 - bad))
        rate = self.rate * group.factor * (1 - bad)
        values.mul_(1 - rate * group.decay)
        ahead = gradient.lerp_(means, MOMENTUM)  # where the mean is going (Nesterov)
        values.sub_(orthogonal_step(ahead).mul_(rate))

    def changes(self) -> list[Tensor]:
        """List the tensors that a step writes to."""
        weights = self.weights
        counts = [self.norm, self.updates, self.skipped, self.skipped_in_a_row]
        copies = [weights.copies.vector] if weights.copies else []
        return [weights.values, weights.gradient, *copies, self.means, self.squares, *counts]

    def tensors(self) -> dict[str, Tensor]:
        """Name all that the next update depends on beside the weights, as live tensors."""
        weights = self.weights
        means = {f"mean.{name}": view for name, view in weights.views(self.means).items()}
        squares = {
            f"square.{name}": view
            for name, view in weights.views(self.squares).items()
            if not weights.group_of[name].matrix  # Muon has no use for them
        }
        return {"updates": self.updates, **means, **squares}


def build_optimizer(
    module: nn.Module, config: TrainConfig, working: torch.dtype | None = None, factor: Factor = lambda name: 1.0
) -> Optimizer:
    """Lay out a module's weights and make their optimizer; vectors, that is biases and layer norms, do not decay.

    `working` is the type that the forward pass computes in, where it differs from the weights' own.
    """

    def group(name: str, weight: nn.Parameter) -> Group:
        decay = config.weight_decay if weight.dim() > 1 else 0.0
        return Group(decay, factor(name), block_matrix(name, weight) if config.optimizer == "muon" else None)

    return Optimizer(Weights(module, group, working), config)


def layer_factor(name: str, layers: int, decay: float, off_by_one: bool = False) -> float:
    """Give the multiple of the rate for a parameter of an encoder with a head: one for the head, less further down.

    The top layer has `decay`, each layer below it one power more, the embeddings one more than the lowest layer.
    The original counts one power more for all of them, which its authors call a slip: `off_by_one`.
    """
    if not name.startswith("encoder."):
        return 1.0
    in_layer = re.match(r"encoder\.layers\.(\d+)\.", name)
    depth = layers - int(in_layer[1]) if in_layer else layers + 1
    return decay ** (depth + off_by_one)


def _norm(gradient: Tensor) -> Tensor:
    """Give a vector's norm; on a CPU that of the norms of parts, since a sum of many squares there loses digits."""
    parts = (gradient,) if gradient.is_cuda else torch.split(gradient, NORM_PART)
    norm: Tensor = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(part) for part in parts]))
    return norm


def _pieces(group: Tensor) -> list[Tensor]:
    if not group.is_cuda:
        return [group]
    size = -(-len(group) // (PIECES * ALIGNED)) * ALIGNED
    return list(torch.split(group, size))
