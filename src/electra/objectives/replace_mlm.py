"""Replace MLM (section 3.5): masked language modelling whose input holds samples where BERT's holds [MASK]."""

from torch import Tensor

from electra.config.schema import ReplaceMLMObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.networks import GeneratorNetwork, MaskedLM
from electra.objectives.base import Step, predict
from electra.objectives.corruption import CorruptingObjective
from electra.objectives.draws import Draws


class ReplaceMLM(CorruptingObjective):
    """The true tokens predicted at the masked positions, [MASK] never seen: does its absence later on matter?"""

    network: MaskedLM

    def __init__(
        self, config: ReplaceMLMObjective, tokenizer: Tokenizer, generator: GeneratorNetwork, network: MaskedLM
    ) -> None:
        super().__init__(config, tokenizer, generator)
        self.network = network

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Corrupt the batch and predict what stood at the masked positions."""
        corrupted = self.corrupt(batch, draws)
        masked = corrupted.masked
        logits = self.network(corrupted.ids, batch.attention, batch.types, masked.positions)
        loss, predictions = predict(logits, masked)
        total = self.config.generator_weight * corrupted.loss + loss
        return Step(total, corrupted.ids, corrupted.generator, main=predictions)
