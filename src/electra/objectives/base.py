"""What every objective gives, and how losses are averaged."""

from abc import abstractmethod
from dataclasses import dataclass

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from electra.data.feeding.batch import Batch
from electra.model import kernels
from electra.model.networks import Discriminator, EnergyModel, GeneratorNetwork, MaskedLM
from electra.objectives.draws import Draws
from electra.objectives.masking import Masked, real_tokens


@dataclass(frozen=True)
class Predictions:
    """How a network did at predicting tokens, without gradient."""

    nll: Tensor  # (B, N) negative log-likelihood of the true token
    best: Tensor  # (B, N) the likeliest token
    correct: Tensor  # (B, N) whether it was the true one
    positions: Tensor  # (B, N) where in the sequence
    weights: Tensor  # (B, N)
    hidden: Tensor | None = None  # (B, N) whether [MASK] stood there; elsewhere copying is enough
    sampled: Tensor | None = None  # (B, N) whether a token sampled from the prediction was the true one


@dataclass(frozen=True)
class Verdicts:
    """How a discriminator did at finding replaced tokens, without gradient."""

    scores: Tensor  # (B, L)
    replaced: Tensor  # (B, L)
    losses: Tensor  # (B, L) negative log-likelihood of the truth
    weights: Tensor  # (B, L) 1 for tokens that count, 0 for padding


@dataclass(frozen=True)
class Step:
    """The loss of a batch, and what there is to know about it: see `electra.objectives.metrics`."""

    loss: Tensor
    shown: Tensor  # (B, L) what the main network read
    generator: Predictions | None = None
    main: Predictions | None = None  # of a main network that predicts tokens
    verdicts: Verdicts | None = None  # of a main network that detects replacements


class Objective(nn.Module):
    """A training objective: from a batch and the random numbers for it to a loss."""

    network: Discriminator | EnergyModel | MaskedLM  # what is kept after pre-training
    generator: GeneratorNetwork | None

    @abstractmethod
    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Compute the loss of a batch."""


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Average over all tokens that count, in every process: ranks with fewer of them weigh less."""
    return (values * weights).sum() / (_over_processes(weights.sum()) + 1e-6)


def real_share(batch: Batch[Tensor]) -> Tensor:
    """Give the share of the places, in every process, that is no padding: what a batch counts among others."""
    return _over_processes(real_tokens(batch).float().mean())


def _over_processes(value: Tensor) -> Tensor:
    """Give the mean of a value over the processes: gradients are averaged over them afterwards."""
    if dist.is_initialized() and dist.get_world_size() > 1:
        value = value.detach().clone()
        dist.all_reduce(value)
        value = value / dist.get_world_size()
    return value


def log_likelihood(logits: Tensor, tokens: Tensor) -> Tensor:
    """Give the (B, N) log-probabilities of tokens under (B, N, V) logits."""
    return -F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none").view_as(tokens)


def predict(logits: Tensor, masked: Masked) -> tuple[Tensor, Predictions]:
    """Give the masked-LM loss of (B, N, V) logits, and how the predictions did."""
    targets = masked.originals
    if kernels.serve(logits):
        from electra.model.kernels.vocabulary import cross_entropy

        nll, best = (part.view_as(targets) for part in cross_entropy(logits.flatten(0, 1), targets.flatten()))
    else:
        nll, best = -log_likelihood(logits, targets), logits.detach().max(-1).indices
    predictions = Predictions(nll.detach(), best, best == targets, masked.positions, masked.weights, masked.hidden)
    return weighted_mean(nll, masked.weights), predictions


def detect(scores: Tensor, replaced: Tensor, weights: Tensor) -> tuple[Tensor, Verdicts]:
    """Give the discriminator's loss of (B, L) scores, and how its verdicts did."""
    losses = F.binary_cross_entropy_with_logits(scores.float(), replaced.float(), reduction="none")
    return weighted_mean(losses, weights), Verdicts(scores.detach().float(), replaced, losses.detach(), weights)


def sampled_from(logits: Tensor, temperature: float, forbidden: Tensor | None = None) -> Tensor:
    """Give the (B, N, V) logits of what is sampled: sharper or flatter, and never the forbidden (B, N) tokens."""
    logits = logits.float() / temperature
    return logits if forbidden is None else logits.scatter(-1, forbidden[..., None], -torch.inf)


def sample(logits: Tensor, draws: Tensor, temperature: float = 1.0, forbidden: Tensor | None = None) -> Tensor:
    """Sample (B, N) tokens from (B, N, V) logits, one uniform number each; no gradient passes.

    The inverse of the cumulative distribution: the same law as Gumbel noise, for one random number instead of V.
    """
    if kernels.serve(logits):
        from electra.model.kernels import vocabulary

        banned = None if forbidden is None else forbidden.flatten()
        rows, uniform = logits.detach().flatten(0, 1), draws.flatten()
        return vocabulary.sample(rows, uniform, temperature, banned).view_as(draws)
    cumulative = sampled_from(logits.detach(), temperature, forbidden).softmax(-1).cumsum(-1)
    threshold = draws[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(-1).clamp(max=logits.size(-1) - 1)
