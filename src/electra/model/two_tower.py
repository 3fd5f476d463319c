"""The two-tower generator: each token predicted from all tokens to its left and all to its right.

No [MASK] is needed: a causal Transformer in each direction sees the whole unmasked text in one pass.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.schema import ModelConfig
from electra.model.encoder import Embeddings, Encoder
from electra.model.heads import GeneratorHead, at_positions


class TwoTowerGenerator(nn.Module):
    """A left-to-right and a right-to-left encoder over the same embeddings, and one head."""

    sees_masks = False  # it reads the whole text; no tower sees the token that it predicts

    def __init__(self, config: ModelConfig, embeddings: Embeddings | None = None) -> None:
        super().__init__()
        self.left = Encoder(config, embeddings, direction="forward")
        self.right = Encoder(config, self.left.embeddings, direction="backward")
        self.head = GeneratorHead(config, inputs=2 * config.hidden_size)

    def forward(self, ids: Tensor, attention: Tensor | None, types: Tensor | None, positions: Tensor) -> Tensor:
        """Give (B, N, V) logits for the tokens at `positions`, each from every token but itself."""
        left, right = self.left(ids, attention, types), self.right(ids, attention, types)
        before = F.pad(left[:, :-1], (0, 0, 1, 0))  # at i: what the left tower knows of 0 … i-1; of nothing, zeros
        after = F.pad(right[:, 1:], (0, 0, 0, 1))  # at i: what the right tower knows of i+1 …
        chosen = at_positions(torch.cat([before, after], dim=-1), positions)
        logits: Tensor = self.head(chosen, self.left.embeddings.vocabulary)
        return logits
