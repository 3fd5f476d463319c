"""The heads of tagging, one for each body.

Shapes: B sequences, L tokens, H hidden size.
"""

from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.model.heads import Head, NormedHead
from electra.model.initialize import glorot_linear


class TaggingHead(Head, architecture="ElectraForTokenClassification", names={"linear": "classifier"}, labeled="tokens"):
    """Every token's hidden state to tag logits; the paper's head is that of `ElectraForTokenClassification`."""

    def __init__(self, config: ModelConfig, tags: int) -> None:
        super().__init__()
        self.linear = glorot_linear(config.hidden_size, tags)

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, L, tags) logits of (B, L, H) hidden states."""
        logits: Tensor = self.linear(hidden)
        return logits


class ModernTaggingHead(
    NormedHead, Head, architecture="ModernBertForTokenClassification", names=NormedHead.NAMES, labeled="tokens"
):
    """The head of `ModernBertForTokenClassification`."""

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, L, tags) logits of (B, L, H) hidden states."""
        return self.read(hidden)
