"""The heads of multiple choice: one score for each pair of context and option.

Shapes: B pairs, L tokens, H hidden size.
"""

import torch.nn.functional as F
from torch import Tensor

from electra.config.bodies import ModelConfig, ModernModel
from electra.model.heads import Head, NormedHead
from electra.tasks.texts.head import ClassificationHead, HuggingFaceClassificationHead


class HuggingFaceChoiceHead(
    HuggingFaceClassificationHead,
    architecture="ElectraForMultipleChoice",
    names={"dense": "sequence_summary.summary", "linear": "classifier"},
):
    """The head of `ElectraForMultipleChoice`, which has no dropout before the first layer."""

    compares = True
    example = """pairs = tokenizer([["he ate", "a meal"], ["he ate", "a car"]], padding=True, return_tensors="pt")
outputs = model(**{name: rows[None] for name, rows in pairs.items()})"""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, 1)

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B,) scores of (B, L, H) hidden states."""
        scores: Tensor = self.linear(self.dropout(F.gelu(self.dense(hidden[:, 0]))))
        return scores.squeeze(-1)


class ChoiceHead(
    ClassificationHead, architecture="PaperChoice", names={"linear": "paper_choice"}, served_as="MultipleChoice"
):
    """One linear map of the first token, as the paper's heads have it; the paper has no multiple choice."""

    compares = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, 1)

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B,) scores of (B, L, H) hidden states."""
        return super().forward(hidden).squeeze(-1)

    def exported(self, config: ModelConfig) -> HuggingFaceChoiceHead:
        head = HuggingFaceChoiceHead(config).to(self.linear.weight.device)
        head.load_state_dict(super().exported(config).state_dict())
        return head


class ModernChoiceHead(NormedHead, Head, architecture="ModernBertForMultipleChoice", names=NormedHead.NAMES):
    """The head of `ModernBertForMultipleChoice`."""

    compares, example = True, HuggingFaceChoiceHead.example

    def __init__(self, config: ModernModel) -> None:
        super().__init__(config, 1)

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B,) scores of (B, L, H) hidden states."""
        return self.read(self.pool(hidden, attention)).squeeze(-1)

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        return {"logits": self(hidden, attention)}
