"""The heads of classification and regression: the paper's, and that of `ElectraForSequenceClassification`.

Shapes: B sequences, L tokens, H hidden size.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ModelConfig
from electra.errors import CheckpointError
from electra.model.heads import Head, NormedHead
from electra.model.initialize import glorot_linear, normal_linear


class ClassificationHead(
    Head,
    architecture="PaperClassification",
    names={"linear": "paper_classifier"},
    labeled="texts",
    served_as="SequenceClassification",
):
    """The first token's hidden state to class logits, or to one value for regression."""

    def __init__(self, config: ModelConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.linear = glorot_linear(config.hidden_size, outputs)

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B, outputs) logits of (B, L, H) hidden states."""
        logits: Tensor = self.linear(self.dropout(hidden[:, 0]))
        return logits

    @torch.no_grad()
    def exported(self, config: ModelConfig) -> "HuggingFaceClassificationHead":
        """Return the same function as the two layers of `ElectraForSequenceClassification`.

        gelu(z) - gelu(-z) = z for every z: the inner layer computes each logit and its negative, the outer subtracts.
        """
        outputs, width = self.linear.weight.shape
        if 2 * outputs > width:
            limit = f"Hugging Face's classifier of width {width} cannot hold the paper's head with {outputs} labels"
            raise CheckpointError(f"{limit}; fine-tune with head=huggingface")
        head = HuggingFaceClassificationHead(config, outputs).to(self.linear.weight.device)
        for parameter in head.parameters():
            parameter.zero_()
        head.dense.weight[: 2 * outputs] = torch.cat([self.linear.weight, -self.linear.weight])
        head.dense.bias[: 2 * outputs] = torch.cat([self.linear.bias, -self.linear.bias])
        one = torch.eye(outputs)
        head.linear.weight[:, : 2 * outputs] = torch.cat([one, -one], dim=1)
        return head


class HuggingFaceClassificationHead(
    Head,
    architecture="ElectraForSequenceClassification",
    names={"dense": "classifier.dense", "linear": "classifier.out_proj"},
    labeled="texts",
):
    """The head of `ElectraForSequenceClassification`: one more layer between the first token and the logits."""

    def __init__(self, config: ModelConfig, outputs: int) -> None:
        super().__init__()
        self.dropout = nn.Dropout(config.dropout)
        self.dense = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std)
        self.linear = normal_linear(config.hidden_size, outputs, config.initializer_std)

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B, outputs) logits of (B, L, H) hidden states."""
        logits: Tensor = self.linear(self.dropout(F.gelu(self.dense(self.dropout(hidden[:, 0])))))
        return logits


class ModernClassificationHead(
    NormedHead, Head, architecture="ModernBertForSequenceClassification", names=NormedHead.NAMES, labeled="texts"
):
    """The head of `ModernBertForSequenceClassification`."""

    def forward(self, hidden: Tensor, attention: Tensor | None = None) -> Tensor:
        """Return (B, outputs) logits of (B, L, H) hidden states."""
        return self.read(self.pool(hidden, attention))

    def graph_outputs(self, hidden: Tensor, attention: Tensor) -> dict[str, Tensor]:
        return {"logits": self(hidden, attention)}
