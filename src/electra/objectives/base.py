"""What every objective has and returns: networks, loss terms, and the tensors that metrics are computed from."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ModelConfig
from electra.config.objectives import Masking
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model import ops
from electra.model.body import check_shape
from electra.model.networks import Discriminator, EnergyModel, GeneratorNetwork, MaskedLM, TwoTower, adopt_generator
from electra.model.pretrained import Pretrained
from electra.objectives.draws import Draws
from electra.objectives.masking import Masked, Masker, real_tokens

OBJECTIVES: dict[str, type["Objective"]] = {}  # by the `kind` of their config section
FRESH = "it starts from random weights"


@dataclass(frozen=True)
class Predictions:
    """How well a network predicted tokens; without gradient."""

    nll: Tensor  # (B, N) negative log-likelihood of the true token
    best: Tensor  # (B, N) the likeliest token
    correct: Tensor  # (B, N) whether it was the true one
    positions: Tensor  # (B, N) where in the sequence
    weights: Tensor  # (B, N)
    hidden: Tensor | None = None  # (B, N) whether the input had [MASK] there; elsewhere copying is enough
    sampled: Tensor | None = None  # (B, N) whether a token sampled from the prediction was the true one


@dataclass(frozen=True)
class Verdicts:
    """How well a discriminator found replaced tokens; without gradient."""

    scores: Tensor  # (B, L)
    replaced: Tensor  # (B, L)
    losses: Tensor  # (B, L) negative log-likelihood of the truth
    weights: Tensor  # (B, L) 1 for tokens that count, 0 for padding


@dataclass(frozen=True)
class Term:
    """One term of a loss: weight · total / count. Training averages the counts over processes before it divides."""

    weight: float
    total: Tensor  # summed over the tokens that count
    count: Tensor  # how many they are

    def weighted(self, weight: float) -> "Term":
        """Return the term with another weight."""
        return Term(weight, self.total, self.count)


@dataclass(frozen=True)
class Step:
    """The loss of a batch, and what `electra.objectives.metrics` computes metrics from."""

    terms: tuple[Term, ...]
    shown: Tensor  # (B, L) the input of the main network
    generator: Predictions | None = None
    main: Predictions | None = None  # of a main network that predicts tokens
    verdicts: Verdicts | None = None  # of a main network that detects replacements

    @property
    def loss(self) -> Tensor:
        """The loss of this process's part of the batch."""
        first, *others = (term.weight * (term.total / term.count) for term in self.terms)
        return sum(others, first)


class Stage(NamedTuple):
    """One training run of an objective's several; a stage starts from the model of the one before."""

    objective: Any  # its config section
    rate: float = 1.0  # multiple of the learning rate
    announcement: str = ""


class Objective(nn.Module):
    """A training objective: from a batch and the random numbers for it to a loss."""

    config: Masking
    network: Discriminator | EnergyModel | MaskedLM  # what is kept after pre-training
    generator: GeneratorNetwork | None

    def __init__(self, config: Any, tokenizer: Tokenizer, generator: GeneratorNetwork | None, network: Any) -> None:
        super().__init__()
        self.config = config
        self.mask = Masker(config, tokenizer)
        self.generator = generator
        self.network = network
        self.complete()

    def complete(self) -> None:
        """Complete the objective once it has its networks, for example by another head."""

    def __init_subclass__(cls, *, kind: str | None = None) -> None:
        """Register the objective for the config sections of its kind; a class without one is only a base."""
        super().__init_subclass__()
        if kind:
            OBJECTIVES[kind] = cls

    @classmethod
    @abstractmethod
    def build(cls, config: Any, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None) -> Self:
        """Build the objective with fresh networks; the unigram generator needs the `counts` (V,) of the tokens."""

    @abstractmethod
    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Compute the loss of a batch."""

    def recordable(self, batch: Batch[Tensor], draws: Draws) -> bool:
        """Return whether a CUDA graph can record both passes: shapes are static, and the host reads nothing back."""
        return True

    @classmethod
    def stages(cls, config: Any) -> list[Stage]:
        """Return the training runs that lead to the model: usually one, at most two."""
        return [Stage(config)]

    def adopt(self, model: Pretrained) -> list[str]:
        """Start from a pre-trained model; return what it lacks, as the rest of a sentence about it."""
        theirs, main, lacks = model.network, self.network.encoder, []
        check_shape(main.config, model.encoder.config, "the model")
        if isinstance(self.generator, MaskedLM):
            lacks.append(adopt_generator(self.generator, main, model.generator, model.encoder.embeddings))
        elif isinstance(self.generator, TwoTower):
            lacks.append(f"has no two-tower generator: {FRESH}")
        main.adopt(model.encoder)
        if isinstance(theirs, type(self.network)):
            self.network.head.load_state_dict(theirs.head.state_dict())
        else:
            lacks.append(f"has no {self.network.purpose} head: {FRESH}")
        return [lack for lack in lacks if lack]

    def rate(self, name: str) -> float:
        """Return the multiple of the learning rate for a parameter: the generator's own weights may have another."""
        rate = getattr(getattr(self.config, "generator", None), "rate", 1.0)
        if rate == 1.0 or self.generator is None:
            return 1.0
        shared = {id(weight) for weight in self.network.parameters()}
        named = self.generator.named_parameters(prefix="generator")
        return rate if name in {name for name, weight in named if id(weight) not in shared} else 1.0

    def share(self, batch: Batch[Tensor], draws: Draws) -> Tensor:
        """Return the share of a micro-batch that is no padding: how much it counts among those of its update."""
        return real_tokens(batch).float().mean()


def weighted_sum(values: Tensor, weights: Tensor, weight: float = 1.0) -> Term:
    """Return the loss term of values averaged over all tokens that count."""
    return Term(weight, (values * weights).sum(), weights.sum() + 1e-6)


def log_likelihood(logits: Tensor, tokens: Tensor) -> Tensor:
    """Return the (B, N) log-probabilities of tokens under (B, N, V) logits."""
    return -F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none").view_as(tokens)


def predict(logits: Tensor, masked: Masked) -> tuple[Term, Predictions]:
    """Return the masked-LM loss of (B, N, V) logits, and how well they predict."""
    targets = masked.originals
    nll, best = ops.cross_entropy(logits, targets)
    predictions = Predictions(nll.detach(), best, best == targets, masked.positions, masked.weights, masked.hidden)
    return weighted_sum(nll, masked.weights), predictions


def detect(scores: Tensor, replaced: Tensor, weights: Tensor) -> tuple[Term, Verdicts]:
    """Return the discriminator's loss of (B, L) scores, and how well they detect."""
    losses = F.binary_cross_entropy_with_logits(scores.float(), replaced.float(), reduction="none")
    return weighted_sum(losses, weights), Verdicts(scores.detach().float(), replaced, losses.detach(), weights)
