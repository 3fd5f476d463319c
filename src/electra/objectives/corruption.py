"""The generator's part of a step, common to all objectives that replace tokens (section 2, first half)."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from electra.config.schema import ReplacedTokens
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.networks import Discriminator, GeneratorNetwork, MaskedLM
from electra.objectives.base import Objective, Predictions, predict, sample
from electra.objectives.draws import Draws
from electra.objectives.masking import Masked, Masker, put_back


@dataclass(frozen=True)
class Corrupted:
    """A batch in which the generator's samples stand for the masked tokens."""

    ids: Tensor  # (B, L) x^corrupt
    masked: Masked
    logits: Tensor  # (B, N, V) of the generator at the masked positions
    proposed: Tensor  # (B, N) its samples
    forbidden: Tensor | None  # (B, N) what it was not allowed to propose
    loss: Tensor  # L_MLM
    generator: Predictions


class CorruptingObjective(Objective):
    """An objective whose input a generator corrupts."""

    generator: GeneratorNetwork

    def __init__(
        self,
        config: ReplacedTokens,
        tokenizer: Tokenizer,
        generator: GeneratorNetwork,
        network: Discriminator | MaskedLM,
    ) -> None:
        super().__init__()
        self.config = config
        self.mask = Masker(config, tokenizer)
        self.generator = generator
        self.network = network

    def corrupt(self, batch: Batch[Tensor], draws: Draws) -> Corrupted:
        """Mask tokens, let the generator predict them (L_MLM) and put its samples in their place."""
        masked = self.mask(batch, draws)
        seen = masked.ids if self.generator.sees_masks else batch.ids
        logits = self.generator(seen, batch.attention, batch.types, masked.positions)  # (B, N, V)
        loss, predictions = predict(logits, masked)
        forbidden = masked.originals if self.config.forbid_original else None
        with torch.no_grad():
            uniform = draws.sample[:, : masked.positions.size(1)]
            proposed = sample(logits, uniform, self.config.temperature, forbidden)
            ids = put_back(batch.ids, masked.positions, proposed, masked.weights)
            predictions = replace(predictions, sampled=proposed == masked.originals)
        return Corrupted(ids, masked, logits, proposed, forbidden, loss, predictions)
