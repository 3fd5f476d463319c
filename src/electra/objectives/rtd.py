"""Replaced token detection: ELECTRA (section 2 of the paper)."""

from typing import Self

from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.config.objectives import Detecting
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.networks import Discriminator
from electra.objectives.base import Step, detect
from electra.objectives.corruption import Corrupted, CorruptingObjective
from electra.objectives.draws import Draws
from electra.objectives.masking import real_tokens


class ReplacedTokenDetection(CorruptingObjective, kind="electra"):
    """min L_MLM(x, θ_G) + λ L_Disc(x, θ_D), both at once."""

    main = Discriminator
    config: Detecting
    network: Discriminator

    @classmethod
    def build(cls, config: Detecting, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None) -> Self:
        objective = super().build(config, model, tokenizer, counts)
        objective.network.expect(config.first_chance)
        return objective

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        corrupted = self.corrupt(batch, draws)  # L_MLM
        replaced = corrupted.ids != batch.ids  # a lucky guess counts as original
        scores = self.network(corrupted.ids, batch.attention, batch.types).scores  # (B, L)
        discriminator_loss, verdicts = detect(scores, replaced, self.counted(batch, corrupted))  # L_Disc
        terms = corrupted.loss, discriminator_loss.weighted(self.config.discriminator_weight)
        return Step(terms, corrupted.ids, corrupted.generator, verdicts=verdicts)

    def counted(self, batch: Batch[Tensor], corrupted: Corrupted) -> Tensor:
        """Weight (B, L) tokens in L_Disc: every token that is no padding, also [CLS] and [SEP]."""
        return real_tokens(batch).float()
