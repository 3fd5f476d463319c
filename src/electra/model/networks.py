"""The generator and the discriminator, and what they share."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from electra.config import schema
from electra.config.schema import ModelConfig
from electra.model.encoder import Encoder
from electra.model.heads import DiscriminatorHead, GeneratorHead
from electra.model.two_tower import TwoTowerGenerator


class Discriminator(nn.Module):
    """An encoder that scores every token: is it the original one or a replacement?"""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = DiscriminatorHead(encoder.config)

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Give (B, L) scores, positive for replaced."""
        scores: Tensor = self.head(self.encoder(ids, attention, types))
        return scores


class MaskedLM(nn.Module):
    """An encoder that predicts tokens: the generator of ELECTRA, and the whole of the BERT baseline."""

    def __init__(self, encoder: Encoder) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = GeneratorHead(encoder.config)

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Tensor:
        """Give (B, N, V) logits at `positions` (B, N) alone."""
        hidden = self.encoder(ids, attention, types)
        chosen = hidden.gather(1, positions[..., None].expand(-1, -1, hidden.size(-1)))
        logits: Tensor = self.head(chosen, self.encoder.embeddings.words.weight)
        return logits


class Uniform(nn.Module):
    """A generator that knows nothing: every token is equally likely."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.vocab_size = config.vocab_size

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Tensor:
        """Give (B, N, V) logits, all zero."""
        return torch.zeros((), device=positions.device).expand(*positions.shape, self.vocab_size)


GeneratorNetwork = MaskedLM | TwoTowerGenerator | Uniform


@dataclass(frozen=True)
class Networks:
    """The two networks of a joint training; modules that they share are the same objects."""

    generator: GeneratorNetwork
    discriminator: Discriminator


def build_networks(model: ModelConfig, generator: schema.Generator) -> Networks:
    """Build a discriminator of the given shape and the generator that goes with it."""
    discriminator = Discriminator(Encoder(model))
    return Networks(build_generator(model, generator, discriminator.encoder), discriminator)


def build_generator(model: ModelConfig, generator: schema.Generator, encoder: Encoder) -> GeneratorNetwork:
    """Build a generator that shares what its config says with the discriminator's encoder."""
    match generator:
        case schema.UniformGenerator():
            return Uniform(model)
        case schema.MaskedLMGenerator(sharing="all"):
            return MaskedLM(encoder)
    own = generator.sharing == "none"
    shape = generator.encoder(model, own_embeddings=own)
    embeddings = None if own else encoder.embeddings
    if isinstance(generator, schema.TwoTowerGenerator):
        return TwoTowerGenerator(shape, embeddings)
    return MaskedLM(Encoder(shape, embeddings))
