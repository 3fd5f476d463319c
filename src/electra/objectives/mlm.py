"""Masked language modelling by the full-size encoder: the BERT baseline."""

from torch import Tensor

from electra.config.schema import MLMObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.networks import MaskedLM
from electra.objectives.base import Objective, Step, predict
from electra.objectives.draws import Draws
from electra.objectives.masking import Masker


class MaskedLanguageModelling(Objective):
    """L_MLM of one network, masks drawn anew each time, no next-sentence prediction."""

    network: MaskedLM

    def __init__(self, config: MLMObjective, tokenizer: Tokenizer, network: MaskedLM) -> None:
        super().__init__()
        self.mask = Masker(config, tokenizer)
        self.network = network
        self.generator = None

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Mask tokens and predict them."""
        masked = self.mask(batch, draws)
        logits = self.network(masked.ids, batch.attention, batch.types, masked.positions)
        loss, predictions = predict(logits, masked)
        return Step(loss, masked.ids, main=predictions)
