"""Masked language modelling by the full-size encoder: the BERT baseline."""

from typing import Self

from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.config.objectives import MLMObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.bodies import build_body
from electra.model.networks import MaskedLM
from electra.objectives.base import Objective, Step, predict
from electra.objectives.draws import Draws
from electra.objectives.masking import Masker


class MaskedLanguageModelling(Objective, kind="mlm"):
    """L_MLM of one network with masks drawn afresh each time, without next-sentence prediction."""

    network: MaskedLM

    def __init__(self, config: MLMObjective, tokenizer: Tokenizer, network: MaskedLM) -> None:
        super().__init__()
        self.config = config
        self.mask = Masker(config, tokenizer)
        self.network = network
        self.generator = None

    @classmethod
    def build(
        cls, config: MLMObjective, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None = None
    ) -> Self:
        return cls(config, tokenizer, MaskedLM(build_body(model)))

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Mask tokens and predict them."""
        masked = self.mask(batch, draws)
        logits = self.network(masked.ids, batch.attention, batch.types, masked.positions).logits
        loss, predictions = predict(logits, masked)
        return Step((loss,), masked.ids, main=predictions)
