"""The generator's part of a step, common to all objectives that replace tokens (section 2, first half)."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.config.objectives import ReplacedTokens
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model import ops
from electra.model.networks import Discriminator, EnergyModel, GeneratorNetwork, MaskedLM, build_networks
from electra.objectives.base import Objective, Predictions, Term, predict
from electra.objectives.draws import Draws
from electra.objectives.masking import Masked, put_back


class TwoNetworks(Objective):
    """An objective with a generator and a main network that share what the config says."""

    main: ClassVar[type[Discriminator | EnergyModel | MaskedLM]]  # the class of the main network
    generator: GeneratorNetwork

    @classmethod
    def build(cls, config: Any, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None) -> Self:
        encoder, generator = build_networks(model, config.generator, counts)
        return cls(config, tokenizer, generator, cls.main(encoder))


@dataclass(frozen=True)
class Corrupted:
    """A batch whose masked tokens are replaced by the generator's samples."""

    ids: Tensor  # (B, L) x^corrupt
    masked: Masked
    hidden: Tensor | None  # (B, L, H) of the generator
    logits: Tensor  # (B, N, V) of the generator at the masked positions
    proposed: Tensor  # (B, N) its samples
    forbidden: Tensor | None  # (B, N) what it was not allowed to propose
    loss: Term  # L_MLM
    generator: Predictions


class CorruptingObjective(TwoNetworks):
    """An objective whose input a generator corrupts."""

    config: ReplacedTokens

    def corrupt(self, batch: Batch[Tensor], draws: Draws) -> Corrupted:
        """Mask tokens, let the generator predict them (L_MLM) and replace them by its samples."""
        masked = self.mask(batch, draws)
        seen = masked.ids if self.generator.sees_masks else batch.ids
        hidden, logits = self.generator(seen, batch.attention, batch.types, masked.positions)  # (B, L, H), (B, N, V)
        loss, predictions = predict(logits, masked)
        forbidden = masked.originals if self.config.forbid_original else None
        with torch.no_grad():
            uniform = draws.sample[:, : masked.positions.size(1)]
            proposed = ops.sample(logits, uniform, self.config.temperature, forbidden)
            ids = put_back(batch.ids, masked.positions, proposed, masked.weights)
            predictions = replace(predictions, sampled=proposed == masked.originals)
        loss = loss.weighted(self.config.generator_weight)
        return Corrupted(ids, masked, hidden, logits, proposed, forbidden, loss, predictions)
