"""Masked language modeling by the full-size encoder: the BERT baseline."""

from typing import Any, Self

from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.bodies import build_body
from electra.model.networks import MaskedLM
from electra.objectives.base import Objective, Step, predict
from electra.objectives.draws import Draws


class MaskedLanguageModeling(Objective, kind="mlm"):
    """L_MLM of one network with masks drawn afresh each time, without next-sentence prediction."""

    network: MaskedLM

    @classmethod
    def build(cls, config: Any, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None) -> Self:
        return cls(config, tokenizer, None, MaskedLM(build_body(model)))

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        masked = self.mask(batch, draws)
        logits = self.network(masked.ids, batch.attention, batch.types, masked.positions).logits
        loss, predictions = predict(logits, masked)
        return Step((loss,), masked.ids, main=predictions)
