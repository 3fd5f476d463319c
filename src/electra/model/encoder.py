"""The Transformer encoder of BERT and ELECTRA: learned positions, post-norm, erf-GELU.

Shapes: B sequences, L tokens, E embedding size, H hidden size.
`attention` (B, L) is 0 for padding, else the number of the text that a token belongs to: tokens see the tokens of their
own number. A plain 0/1 mask is the case of one text per sequence; None says that all tokens see each other.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from electra.config.schema import ModelConfig
from electra.model import kernels
from electra.model.cpu import Dropout, attend, gelu

Direction = Literal["both", "forward", "backward"]


def normal_linear(inputs: int, outputs: int, std: float) -> nn.Linear:
    """Make a linear map that starts from a truncated normal, its bias from zero."""
    linear = nn.Linear(inputs, outputs)
    truncated_normal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """Make a linear map that starts Glorot-uniform, as the original's projections and last layers do."""
    linear = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def truncated_normal_(weight: Tensor, std: float) -> None:
    """Draw from a normal cut at two deviations."""
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


class Embeddings(nn.Module):
    """Token, position and type embeddings, summed and normalised."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocab_size, config.embedding_size)
        self.positions = nn.Embedding(config.max_length, config.embedding_size)
        self.types = nn.Embedding(config.token_types, config.embedding_size)
        for table in (self.words, self.positions, self.types):
            truncated_normal_(table.weight, config.initializer_std)
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    @property
    def vocabulary(self) -> Tensor:
        """Give the (V, E) embeddings of all tokens, which a head that predicts tokens compares with."""
        return self.words.weight

    @staticmethod
    def kind(types: Tensor | None, table: Tensor) -> Tensor:
        """Embed token types; as a matrix product, whose gradient is cheap where a few rows get the tokens of all."""
        if types is None:
            return table[0]
        chosen = types[..., None] == torch.arange(len(table), device=types.device)
        return chosen.to(table.dtype) @ table

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Embed (B, L) ids as (B, L, E)."""
        ids = ids.int()  # a GPU sorts them for the gradient, and half as many bits in half the time
        place = self.positions.weight[: ids.size(1)] + self.kind(types, self.types.weight)
        return self.finish(self.words(ids) + place)

    def finish(self, summed: Tensor) -> Tensor:
        """Normalise the sum of the embeddings (B, L, E)."""
        if kernels.serve(summed):
            from electra.model.kernels.norm import normalize

            seeds = kernels.draw_seeds(1, summed.device)[0, 0]
            return normalize(summed, self.norm, seeds, self.dropout.p if self.training else 0.0)
        embedded: Tensor = self.dropout(self.norm(summed))
        return embedded


class DisentangledEmbeddings(Embeddings):
    """Gradient-disentangled sharing: another network's embeddings, held fixed, plus a difference of one's own.

    E_D = stop_gradient(E_G) + E_Δ (He et al. 2023, DeBERTaV3); E_Δ starts at zero.
    """

    def __init__(self, config: ModelConfig, shared: Embeddings) -> None:
        super().__init__(config)
        self.shared = shared
        for table in (self.words, self.positions, self.types):
            nn.init.zeros_(table.weight)

    @property
    def vocabulary(self) -> Tensor:
        """Give the (V, E) embeddings of all tokens; the gradient reaches the differences alone."""
        return self.shared.words.weight.detach() + self.words.weight

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Embed (B, L) ids as (B, L, E); the gradient reaches the differences alone."""
        shared, ids = self.shared, ids.int()
        words = F.embedding(ids, shared.words.weight.detach()) + self.words(ids)
        positions, kinds = (
            theirs.weight.detach() + own.weight
            for theirs, own in ((shared.positions, self.positions), (shared.types, self.types))
        )
        return self.finish(words + (positions[: ids.size(1)] + self.kind(types, kinds)))

    def merged(self, config: ModelConfig) -> Embeddings:
        """Give the same function as plain embeddings."""
        plain = Embeddings(config).to(self.words.weight.device)
        with torch.no_grad():
            for name in ("words", "positions", "types"):
                table, own, shared = (getattr(module, name).weight for module in (plain, self, self.shared))
                table.copy_(shared + own)
        plain.norm.load_state_dict(self.norm.state_dict())
        return plain


class SelfAttention(nn.Module):
    """Multi-head attention of a sequence to itself."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = Dropout(config.attention_dropout)
        self.query_key_value = normal_linear(config.hidden_size, 3 * config.hidden_size, config.initializer_std)
        self.output = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Mix (B, L, H) hidden states where the boolean mask (B or 1, 1, L, L) allows it."""
        split = self.query_key_value(hidden).unflatten(-1, (3, self.heads, -1))  # (B, L, 3, heads, H / heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = attend(query, key, value, mask, self.dropout)
        output: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return output


class Layer(nn.Module):
    """One Transformer block: attention and feed-forward, each added to its input and then normalised."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.expand = normal_linear(config.hidden_size, config.feed_forward_size, config.initializer_std)
        self.contract = normal_linear(config.feed_forward_size, config.hidden_size, config.initializer_std)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = Dropout(config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Map (B, L, H) to (B, L, H) where the boolean mask (B or 1, 1, L, L) allows it."""
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, mask)))
        output: Tensor = self.feed_forward_norm(hidden + self.dropout(self.contract(gelu(self.expand(hidden)))))
        return output

    def weights(self) -> list[Tensor]:
        """Give all weights in the order of their use."""
        first = (self.attention.query_key_value, self.attention.output, self.attention_norm)
        second = (self.expand, self.contract, self.feed_forward_norm)
        return [weight for module in (*first, *second) for weight in (module.weight, module.bias)]


class Encoder(nn.Module):
    """Embeddings, a projection where their width differs, and a stack of blocks."""

    def __init__(
        self, config: ModelConfig, embeddings: Embeddings | None = None, direction: Direction = "both"
    ) -> None:
        super().__init__()
        self.config = config
        self.direction = direction
        self.embeddings = embeddings or Embeddings(config)
        same_width = config.embedding_size == config.hidden_size
        self.project = nn.Identity() if same_width else glorot_linear(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        """Encode (B, L) ids as (B, L, H) hidden states."""
        hidden: Tensor = self.project(self.embeddings(ids, types))
        hidden = hidden.to(self.layers[0].expand.weight.dtype)  # type: ignore[union-attr,arg-type]
        if self._fits_kernels(hidden):
            return self._run_kernels(hidden, attention)
        mask = self._mask(ids, attention)
        for layer in self.layers:
            if self.config.activation_checkpointing and self.training:
                hidden = checkpoint(layer, hidden, mask, use_reentrant=False)
            else:
                hidden = layer(hidden, mask)
        return hidden

    def _fits_kernels(self, hidden: Tensor) -> bool:
        config = self.config
        head_size = config.hidden_size // config.heads
        blocks = (
            16 <= head_size <= kernels.WIDEST and head_size & (head_size - 1) == 0
        )  # the matrix units want powers of two
        plain = self.direction == "both" and not config.activation_checkpointing
        widest = max(config.feed_forward_size, 3 * config.hidden_size)
        addressed = hidden.shape[:2].numel() * widest < 2**31  # the kernels count in 32 bits
        return plain and blocks and addressed and hidden.size(1) <= kernels.LONGEST and kernels.serve(hidden)

    def _run_kernels(self, hidden: Tensor, texts: Tensor | None) -> Tensor:
        from electra.model.kernels.stack import Settings, run_blocks

        config = self.config
        chances = (config.attention_dropout, config.dropout) if self.training else (0.0, 0.0)
        weights = [weight for layer in self.layers for weight in layer.weights()]  # type: ignore[operator]
        seeds = kernels.draw_seeds(len(self.layers), hidden.device)
        return run_blocks(hidden, weights, texts, seeds, Settings(config.heads, *chances, config.layer_norm_eps))

    def _mask(self, ids: Tensor, attention: Tensor | None) -> Tensor | None:
        mask = None
        if attention is not None:  # padding sees padding, so that no row is empty and turns to NaN
            mask = (attention[:, None, :, None] == attention[:, None, None, :]).contiguous()
        if self.direction != "both":
            square = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool, device=ids.device)
            one_way = (square.tril() if self.direction == "forward" else square.triu())[None, None]
            mask = one_way if mask is None else mask & one_way
        return mask
