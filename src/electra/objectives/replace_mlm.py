"""Replace MLM (section 3.5): masked language modeling whose input has samples where BERT's has [MASK]."""

from torch import Tensor

from electra.data.feeding.batch import Batch
from electra.model.networks import MaskedLM
from electra.objectives.base import Step, predict
from electra.objectives.corruption import CorruptingObjective
from electra.objectives.draws import Draws


class ReplaceMLM(CorruptingObjective, kind="replace_mlm"):
    """Predict the true tokens at the masked positions without ever seeing [MASK]: does its absence later matter?"""

    main = MaskedLM
    network: MaskedLM

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        corrupted = self.corrupt(batch, draws)
        masked = corrupted.masked
        logits = self.network(corrupted.ids, batch.attention, batch.types, masked.positions).logits
        loss, predictions = predict(logits, masked)
        return Step((corrupted.loss, loss), corrupted.ids, corrupted.generator, main=predictions)
