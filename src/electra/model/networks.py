"""The generator and the discriminator, and what they share."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from electra.config import schema
from electra.config.schema import ModelConfig
from electra.errors import ConfigError
from electra.model.encoder import DisentangledEmbeddings, Embeddings, Encoder
from electra.model.heads import DiscriminatorHead, GeneratorHead, TaskHead, at_positions
from electra.model.two_tower import TwoTowerGenerator

Problem = Literal["single_label_classification", "multi_label_classification", "regression"]  # Hugging Face's words


class TokenScorer(nn.Module):
    """An encoder that gives every token a score."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = DiscriminatorHead(encoder.config)

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Give (B, L) scores, the higher the less a token belongs where it stands."""
        scores: Tensor = self.head(self.encoder(ids, attention, types))
        return scores


class Discriminator(TokenScorer):
    """Is a token the original one or a replacement? The score is the logit of its being replaced."""


class EnergyModel(TokenScorer):
    """Electric's main network: the score is an energy, which says nothing of replacements without the noise's log q."""


class MaskedLM(nn.Module):
    """An encoder that predicts tokens: the generator of ELECTRA, and the whole of the BERT baseline."""

    sees_masks = True  # the tokens to predict are hidden from it by [MASK]

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = GeneratorHead(encoder.config)

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Tensor:
        """Give (B, N, V) logits at `positions` (B, N) alone."""
        chosen = at_positions(self.encoder(ids, attention, types), positions)
        logits: Tensor = self.head(chosen, self.encoder.embeddings.vocabulary)
        return logits


class TaskNetwork(nn.Module):
    """An encoder with the head of a task, and what the head's outputs mean."""

    def __init__(
        self, encoder: Encoder, head: TaskHead, labels: Sequence[str] = (), problem: Problem | None = None
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = head
        self.labels = tuple(labels)  # one for each output; none for spans
        self.problem = problem  # for classification heads: which of the three kinds

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Any:
        """Give what the head makes of the hidden states."""
        return self.head(self.encoder(ids, attention, types))


class Uniform(nn.Module):
    """A generator that knows nothing: every token is equally likely."""

    sees_masks = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.vocab_size = config.vocab_size

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Tensor:
        """Give (B, N, V) logits, all zero."""
        return torch.zeros((), device=positions.device).expand(*positions.shape, self.vocab_size)


class Unigram(nn.Module):
    """A generator that knows how often each token occurs, and nothing of the context."""

    sees_masks = True
    logits: Tensor

    def __init__(self, counts: Tensor) -> None:
        super().__init__()
        self.register_buffer("logits", counts.clamp(min=1e-9).log())

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Tensor:
        """Give (B, N, V) logits, the same everywhere."""
        return self.logits.expand(*positions.shape, -1)


GeneratorNetwork = MaskedLM | TwoTowerGenerator | Uniform | Unigram


def build_networks(
    model: ModelConfig, generator: schema.Generator, counts: Tensor | None = None
) -> tuple[Encoder, GeneratorNetwork]:
    """Build the main network's encoder and the generator; modules that they share are the same objects.

    `counts` (V,) says how often each token occurs; the unigram generator needs it.
    """
    match generator:
        case schema.UniformGenerator():
            return Encoder(model), Uniform(model)
        case schema.UnigramGenerator():
            if counts is None:
                raise ConfigError("the unigram generator draws tokens by how often they occur; it needs their counts")
            return Encoder(model), Unigram(counts)
        case schema.MaskedLMGenerator(sharing="all"):
            encoder = Encoder(model)
            return encoder, MaskedLM(encoder)
    own = generator.sharing == "none"
    shape = generator.encoder(model, own_embeddings=own)
    shared = None if own else Embeddings(model)
    towers = isinstance(generator, schema.TwoTowerGenerator)
    network = TwoTowerGenerator(shape, shared) if towers else MaskedLM(Encoder(shape, shared))
    if shared and generator.sharing == "gdes":
        return Encoder(model, DisentangledEmbeddings(model, shared)), network
    return Encoder(model, shared), network


def plain_encoder(encoder: Encoder) -> Encoder:
    """Give an encoder whose embeddings are its own, as files hold them: itself unless it borrows another's."""
    if not isinstance(encoder.embeddings, DisentangledEmbeddings):
        return encoder
    plain = Encoder(encoder.config, encoder.embeddings.merged(encoder.config))
    plain.project, plain.layers = encoder.project, encoder.layers
    return plain
