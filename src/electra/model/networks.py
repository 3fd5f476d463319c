"""The generator and the discriminator: an encoder with a head each, and what they share.

A network returns its hidden states with its output, so that an objective can put a head of its own on them.
Shapes: B sequences, L tokens, N positions, H hidden size, V vocabulary, E embedding size.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config import objectives as config
from electra.config.bodies import ModelConfig
from electra.errors import ConfigError
from electra.model.bodies import BODIES, build_body
from electra.model.body import Body, Embeddings, check_shape, with_modules
from electra.model.heads import Head, at_positions

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]  # Hugging Face's words


class Scored(NamedTuple):
    """What a discriminator returns."""

    hidden: Tensor  # (B, L, H)
    scores: Tensor  # (B, L)


class Predicted(NamedTuple):
    """What a network that predicts tokens returns."""

    hidden: Tensor | None  # (B, L, H); None of a generator without an encoder
    logits: Tensor  # (B, N, V)


class Network(nn.Module):
    """An encoder with a head."""

    purpose: ClassVar[str] = ""  # the kind of the head, for messages

    def __init__(self, encoder: Body, head: Head) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head

    @property
    def vocabulary(self) -> Tensor:
        """The (V, E) embeddings of all tokens."""
        return self.encoder.vocabulary

    def plain(self) -> Self:
        """Return an equal network whose embeddings are its own, as files store them."""
        network: Self = with_modules(self)
        network.encoder = self.encoder.plain()
        return network


class TokenScorer(Network):
    """An encoder that scores every token."""

    scores: ClassVar[str]  # what they mean, for files

    def __init__(self, encoder: Body) -> None:
        super().__init__(encoder, encoder.detection_head())

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Scored:
        """Score every token: the higher, the less it belongs there."""
        hidden = self.encoder(ids, attention, types)
        return Scored(hidden, self.head(hidden))


class Discriminator(TokenScorer):
    """Is a token original or replaced? The score is the logit of its being replaced."""

    purpose, scores = "discriminator", "replaced"

    def expect(self, share: float) -> None:
        """Start from the expectation that this share of the tokens is replaced."""
        head: Any = self.head
        head.expect(share)


class EnergyModel(TokenScorer):
    """Electric's main network: the score is an energy, which predicts replacements only together with log q."""

    purpose, scores = "energy", "energies"


class MaskedLM(Network):
    """An encoder that predicts tokens: the generator of ELECTRA, and all of the BERT baseline."""

    purpose = "masked-LM"
    sees_masks = True  # [MASK] hides the tokens to predict from it

    def __init__(self, encoder: Body) -> None:
        super().__init__(encoder, encoder.token_head())

    def forward(
        self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor | None = None
    ) -> Predicted:
        """Predict the tokens at `positions` (B, N), or all of them."""
        hidden = self.encoder(ids, attention, types)
        chosen = hidden if positions is None else at_positions(hidden, positions)
        return Predicted(hidden, self.head(chosen, self.vocabulary))


class TwoTower(nn.Module):
    """A left-to-right and a right-to-left encoder that predict each token from all others; needs no [MASK]."""

    sees_masks = False  # neither tower sees the token that is predicted

    def __init__(self, config: ModelConfig, embeddings: Embeddings | None = None) -> None:
        super().__init__()
        self.left = build_body(config, embeddings, direction="forward")
        self.right = build_body(config, self.left.embeddings, direction="backward")
        self.head = self.left.token_head(inputs=2 * config.hidden_size)

    def forward(
        self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor | None = None
    ) -> Predicted:
        """Predict the tokens at `positions` (B, N), or all of them, each from every token but itself."""
        left, right = self.left(ids, attention, types), self.right(ids, attention, types)
        before = F.pad(left[:, :-1], (0, 0, 1, 0))  # at i: what the left tower knows of 0 … i-1; zeros at the start
        after = F.pad(right[:, 1:], (0, 0, 0, 1))  # at i: what the right tower knows of i+1 …
        hidden = torch.cat([before, after], dim=-1)
        chosen = hidden if positions is None else at_positions(hidden, positions)
        return Predicted(hidden, self.head(chosen, self.left.vocabulary))


class Unigram(nn.Module):
    """A generator that knows how often each token occurs, and nothing of the context; nothing is trained."""

    sees_masks = True
    logits: Tensor

    def __init__(self, counts: Tensor) -> None:
        super().__init__()
        self.register_buffer("logits", counts.clamp(min=1e-9).log())

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Predicted:
        """Return the same logits everywhere."""
        return Predicted(None, self.logits.expand(*positions.shape, -1))


class TaskNetwork(Network):
    """An encoder with the head of a task, and what the head's outputs mean; the task computes them."""

    def __init__(self, encoder: Body, head: Head, labels: Sequence[str] = (), problem: Problem | None = None) -> None:
        super().__init__(encoder, head)
        self.labels = tuple(labels)  # one for each output; none for spans
        self.problem = problem  # of classification heads: which of the three kinds


GeneratorNetwork = MaskedLM | TwoTower | Unigram


def build_networks(
    model: ModelConfig, generator: config.Generator, counts: Tensor | None = None
) -> tuple[Body, GeneratorNetwork]:
    """Build the main network's encoder and the generator; modules that they share are the same objects.

    `counts` (V,) is how often each token occurs; the unigram generator needs it.
    """
    match generator:
        case config.UniformGenerator():
            return build_body(model), Unigram(torch.ones(model.vocab_size))
        case config.UnigramGenerator():
            if counts is None:
                raise ConfigError("the unigram generator draws tokens by their frequency; it needs their counts")
            return build_body(model), Unigram(counts)
        case config.MaskedLMGenerator(sharing="all"):
            encoder = build_body(model)
            return encoder, MaskedLM(encoder)
    shape, make = generator.model(model), BODIES[model.body].embeddings_type
    shared = None if generator.sharing == "none" else make(model)
    towers = isinstance(generator, config.TwoTowerGenerator)
    network = TwoTower(shape, shared) if towers else MaskedLM(build_body(shape, shared))
    return build_body(model, make(model, shared) if generator.sharing == "gdes" else shared), network


def adopt_generator(ours: MaskedLM, main: Body, theirs: MaskedLM | None, embeddings: Embeddings) -> str | None:
    """Take over a pre-trained generator before the main encoder, which has the last word on what they share.

    `embeddings` are those of the main encoder's start. Returns what the user should know, if anything.
    """
    shares = main.embeddings.source is ours.encoder.embeddings
    if theirs is None:
        if shares:
            ours.encoder.embeddings.adopt(embeddings)
        return "has no generator: it starts from random weights"
    if ours.encoder is main:
        check_shape(ours.encoder.config, theirs.encoder.config, "the generator")
    else:
        ours.encoder.adopt(theirs.encoder, "the generator")
    ours.head.load_state_dict(theirs.head.state_dict())
    differ = not torch.equal(theirs.vocabulary, embeddings.vocabulary)
    if main.embeddings is ours.encoder.embeddings and ours.encoder is not main and differ:
        return "has a generator with embeddings of its own: it shares the model's instead"
    return None
