"""Replace MLM (section 3.5): masked language modelling whose input holds samples where BERT's holds [MASK]."""

from torch import Tensor

from electra.data.feeding.batch import Batch
from electra.model.networks import MaskedLM
from electra.objectives.base import Step, predict
from electra.objectives.corruption import CorruptingObjective
from electra.objectives.draws import Draws


class ReplaceMLM(CorruptingObjective):
    """The true tokens predicted at the masked positions, [MASK] never seen: does its absence later on matter?"""

    network: MaskedLM

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Corrupt the batch and predict what stood at the masked positions."""
        corrupted = self.corrupt(batch, draws)
        masked = corrupted.masked
        logits = self.network(corrupted.ids, batch.attention, batch.types, masked.positions)
        loss, predictions = predict(logits, masked)
        total = self.config.generator_weight * corrupted.loss + loss
        return Step(total, corrupted.ids, corrupted.generator, main=predictions)
