"""Replaced token detection: ELECTRA (section 2 of the paper)."""

from torch import Tensor

from electra.config.schema import Detecting
from electra.data.feeding.batch import Batch
from electra.model.networks import Discriminator
from electra.objectives.base import Step, detect
from electra.objectives.corruption import Corrupted, CorruptingObjective
from electra.objectives.draws import Draws
from electra.objectives.masking import real_tokens


class ReplacedTokenDetection(CorruptingObjective):
    """min L_MLM(x, θ_G) + λ L_Disc(x, θ_D), both at once."""

    config: Detecting
    network: Discriminator

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Corrupt the batch and tell its tokens from the replaced ones."""
        corrupted = self.corrupt(batch, draws)  # L_MLM
        replaced = corrupted.ids != batch.ids  # a lucky guess counts as original
        scores = self.network(corrupted.ids, batch.attention, batch.types)  # (B, L)
        discriminator_loss, verdicts = detect(scores, replaced, self.counted(batch, corrupted))  # L_Disc
        loss = self.config.generator_weight * corrupted.loss + self.config.discriminator_weight * discriminator_loss
        return Step(loss, corrupted.ids, corrupted.generator, verdicts=verdicts)

    def counted(self, batch: Batch[Tensor], corrupted: Corrupted) -> Tensor:
        """Weigh (B, L) tokens in L_Disc: every token that is no padding, [CLS] and [SEP] too."""
        return real_tokens(batch).float()
