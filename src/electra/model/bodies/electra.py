"""The encoder of BERT and ELECTRA: learned positions, post-norm, GELU.

Shapes: B sequences, L tokens, E embedding size, H hidden size.
"""

import re
from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ElectraModel, ModelConfig
from electra.model import kernels, ops
from electra.model.body import Body, Direction, Embeddings, bounds_of, check_settings, validated
from electra.model.initialize import glorot_linear, normal_linear

CONFIG_KEYS = {  # our key: (theirs, their default for electra, their default for bert)
    "vocab_size": ("vocab_size", 30_522, 30_522),
    "embedding_size": ("embedding_size", 128, None),
    "hidden_size": ("hidden_size", 256, 768),
    "layers": ("num_hidden_layers", 12, 12),
    "heads": ("num_attention_heads", 4, 12),
    "feed_forward_size": ("intermediate_size", 1024, 3072),
    "max_length": ("max_position_embeddings", 512, 512),
    "token_types": ("type_vocab_size", 2, 2),
    "dropout": ("hidden_dropout_prob", 0.1, 0.1),
    "attention_dropout": ("attention_probs_dropout_prob", 0.1, 0.1),
    "layer_norm_eps": ("layer_norm_eps", 1e-12, 1e-12),
    "initializer_std": ("initializer_range", 0.02, 0.02),
}
REQUIRED = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False}
REQUIRED |= {"add_cross_attention": False}
MODULES = {  # our modules: theirs; those of a block without its number
    "embeddings.words": "embeddings.word_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.types": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "project": "embeddings_project",
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
QUERY_KEY_VALUE = "attention.query_key_value"  # one matrix here, three in files and for Muon
BERT_HEAD = {  # BERT's masked-LM head is the generator's under other names
    "cls.predictions.transform.dense": "generator_predictions.dense",
    "cls.predictions.transform.LayerNorm": "generator_predictions.LayerNorm",
    "cls.predictions": "generator_lm_head",
}


class ElectraEmbeddings(Embeddings):
    """Token, position and type embeddings, summed and normalized."""

    tables = ("words", "positions", "types")

    def __init__(self, config: ElectraModel, shared: Embeddings | None = None) -> None:
        super().__init__(config, shared)
        self.words = nn.Embedding(config.vocab_size, config.embedding_size)
        self.positions = nn.Embedding(config.max_length, config.embedding_size)
        self.types = nn.Embedding(config.token_types, config.embedding_size)
        self.start()
        self.norm = nn.LayerNorm(config.embedding_size, eps=config.layer_norm_eps)
        self.dropout = ops.Dropout(config.dropout)

    def forward(self, ids: Tensor, types: Tensor | None) -> Tensor:
        """Embed (B, L) ids as (B, L, E)."""
        ids = ids.int()  # a GPU sorts them for the gradient: half the bits, half the time
        place = self.table("positions")[: ids.size(1)] + _embed_types(types, self.table("types"))
        return ops.norm_and_drop(F.embedding(ids, self.table("words")) + place, self.norm, self.dropout)


class SelfAttention(nn.Module):
    """Multi-head self-attention."""

    def __init__(self, config: ElectraModel) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = ops.Dropout(config.attention_dropout)
        self.query_key_value = normal_linear(config.hidden_size, 3 * config.hidden_size, config.initializer_std)
        self.output = normal_linear(config.hidden_size, config.hidden_size, config.initializer_std)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Mix (B, L, H) hidden states where the boolean mask (B or 1, 1, L, L) allows it."""
        query, key, value = (ops.split_heads(part, self.heads) for part in ops.project(hidden, self.query_key_value, 3))
        output: Tensor = self.output(ops.join_heads(ops.attend(query, key, value, mask, self.dropout)))
        return output


class Layer(nn.Module):
    """One Transformer block: attention and feed-forward, each added to its input and then normalized."""

    def __init__(self, config: ElectraModel) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.expand = normal_linear(config.hidden_size, config.feed_forward_size, config.initializer_std)
        self.contract = normal_linear(config.feed_forward_size, config.hidden_size, config.initializer_std)
        self.feed_forward_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = ops.Dropout(config.dropout)

    def forward(self, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """Map (B, L, H) to (B, L, H) where the boolean mask (B or 1, 1, L, L) allows it."""
        hidden = self.attention_norm(hidden + self.dropout(self.attention(hidden, mask)))
        output: Tensor = self.feed_forward_norm(hidden + self.dropout(self.contract(F.gelu(self.expand(hidden)))))
        return output

    def weights(self) -> list[Tensor]:
        """Return all weights in the order of their use, as the fused stack takes them."""
        first = (self.attention.query_key_value, self.attention.output, self.attention_norm)
        second = (self.expand, self.contract, self.feed_forward_norm)
        return [weight for module in (*first, *second) for weight in (module.weight, module.bias)]


class ElectraBody(Body):
    """Embeddings, a projection where their width differs, and a stack of blocks."""

    family, model_types, prefix = "Electra", ("electra", "bert"), "electra."
    embeddings_type, usual_head = ElectraEmbeddings, "paper"
    before_blocks = ("embeddings.", "project.")
    config: ElectraModel

    def __init__(
        self, config: ModelConfig, embeddings: Embeddings | None = None, direction: Direction = "both"
    ) -> None:
        super().__init__(config, embeddings, direction)
        assert isinstance(config, ElectraModel)
        same_width = config.embedding_size == config.hidden_size
        self.project = nn.Identity() if same_width else glorot_linear(config.embedding_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        hidden: Tensor = self.project(self.embeddings(ids, types))
        hidden = hidden.to(next(self.layers.parameters()).dtype)  # under autocast a norm widens them
        if ops.choose("post_norm_stack", hidden) == "triton" and self._fits_stack(hidden):
            return self._run_stack(hidden, attention)
        mask = self._mask(ids, attention)
        for layer in self.layers:
            hidden = self.run_block(layer, hidden, mask)
        return hidden

    def matrices(self) -> dict[str, int]:
        named = self.layers.named_parameters(prefix="layers")
        return {name: 3 if QUERY_KEY_VALUE in name else 1 for name, weight in named if weight.dim() == 2}

    @classmethod
    def read_config(cls, described: Mapping[str, Any]) -> ElectraModel:
        check_settings(described, REQUIRED)
        default = 1 if described["model_type"] == "electra" else 2
        values = {ours: described.get(entry[0], entry[default]) for ours, entry in CONFIG_KEYS.items()}
        if default == 2:
            values["embedding_size"] = values["hidden_size"]
        return validated(ElectraModel, values, {ours: entry[0] for ours, entry in CONFIG_KEYS.items()})

    @classmethod
    def describe(cls, config: ElectraModel) -> dict[str, Any]:
        values = {theirs: getattr(config, ours) for ours, (theirs, *_) in CONFIG_KEYS.items()}
        return values | {"hidden_act": "gelu"}

    def file_names(self, name: str) -> list[str]:
        module, _, kind = name.rpartition(".")
        in_layer = re.fullmatch(r"layers\.(\d+)\.(.+)", module)
        number, part = in_layer.groups() if in_layer else (None, module)
        joined = ["query", "key", "value"] if part == QUERY_KEY_VALUE else []
        parts = [f"attention.self.{role}" for role in joined] or [MODULES.get(part, part)]
        block = f"encoder.layer.{number}." if in_layer else ""
        return [f"{block}{part}.{kind}" for part in parts]

    @classmethod
    def current_name(cls, name: str) -> str:
        name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
        name = re.sub(r"^(electra|bert)\.", "", name)
        module, _, kind = name.rpartition(".")
        return f"{BERT_HEAD[module]}.{kind}" if module in BERT_HEAD else name

    def _fits_stack(self, hidden: Tensor) -> bool:
        """True for the blocks and shapes that the fused stack is made for."""
        widest = max(self.config.feed_forward_size, 3 * self.config.hidden_size)
        return hidden.size(1) <= kernels.LONGEST and self.fits_kernels(hidden, widest, Layer)

    def _run_stack(self, hidden: Tensor, texts: Tensor | None) -> Tensor:
        from electra.model.bodies.electra_stack import Settings, run_blocks

        config = self.config
        chances = (config.attention_dropout, config.dropout) if self.training else (0.0, 0.0)
        weights = [weight for layer in self.layers for weight in layer.weights()]  # type: ignore[operator]
        seeds = ops.dropout_seeds(len(self.layers), hidden.device)
        bounds = None if texts is None else bounds_of(texts)
        return run_blocks(hidden, weights, bounds, seeds, Settings(config.heads, *chances, config.layer_norm_eps))

    def _mask(self, ids: Tensor, attention: Tensor | None) -> Tensor | None:
        mask = None
        if attention is not None:  # padding attends to padding, so that no row is empty and becomes NaN
            mask = (attention[:, None, :, None] == attention[:, None, None, :]).contiguous()
        if self.direction != "both":
            square = torch.ones(ids.size(1), ids.size(1), dtype=torch.bool, device=ids.device)
            one_way = (square.tril() if self.direction == "forward" else square.triu())[None, None]
            mask = one_way if mask is None else mask & one_way
        return mask


def _embed_types(types: Tensor | None, table: Tensor) -> Tensor:
    """Embed token types as a matrix product: its gradient is cheap although all tokens share a few rows."""
    if types is None:
        return table[0]
    chosen = types[..., None] == torch.arange(len(table), device=types.device)
    return chosen.to(table.dtype) @ table
