"""The encoder of ModernBERT: rotary positions, pre-norm, gated GELU, local attention, no biases.

Every third block sees the whole text, the others a window. Positions count from the start of each text, so a text has
the same hidden states alone, padded, or packed with others. Shapes: B sequences, L tokens, H hidden size, D head size.
"""

import math
import re
from collections.abc import Mapping
from functools import lru_cache, reduce
from operator import and_
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from electra.config.bodies import ModelConfig, ModernModel
from electra.errors import CheckpointError
from electra.model import ops
from electra.model.body import Body, Direction, Embeddings, bounds_of, check_settings, validated
from electra.model.initialize import normal_linear

CONFIG_KEYS = {  # our key: (theirs, their default)
    "vocab_size": ("vocab_size", 50_368),
    "hidden_size": ("hidden_size", 768),
    "layers": ("num_hidden_layers", 22),
    "heads": ("num_attention_heads", 12),
    "feed_forward_size": ("intermediate_size", 1152),
    "max_length": ("max_position_embeddings", 8192),
    "window": ("local_attention", 128),
    "global_every": ("global_attn_every_n_layers", 3),
    "global_theta": ("global_rope_theta", 160_000.0),
    "local_theta": ("local_rope_theta", 10_000.0),
    "dropout": ("mlp_dropout", 0.0),
    "attention_dropout": ("attention_dropout", 0.0),
    "layer_norm_eps": ("norm_eps", 1e-5),
    "initializer_std": ("initializer_range", 0.02),
}
REQUIRED = {"hidden_activation": "gelu", "classifier_activation": "gelu", "decoder_bias": True}
REQUIRED |= dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), False)
GLOBAL, LOCAL = "full_attention", "sliding_attention"  # the kinds of layers in config.json
POOLINGS = {"first": "cls", "mean": "mean"}
MODULES = {  # our modules: theirs; those of a block without its number
    "embeddings.words": "embeddings.tok_embeddings",
    "attention_norm": "attn_norm",
    "attention.query_key_value": "attn.Wqkv",
    "attention.output": "attn.Wo",
    "feed_forward_norm": "mlp_norm",
    "expand": "mlp.Wi",
    "contract": "mlp.Wo",
}
SPECIAL_IDS = {"pad_token_id": "pad_id", "cls_token_id": "cls_id", "sep_token_id": "sep_id"}
SPECIAL_IDS |= {"bos_token_id": "cls_id", "eos_token_id": "sep_id"}
STACKED = {"query_key_value": 3, "expand": 2}  # matrices that are stacked in one; Muon updates each by itself


class View(NamedTuple):
    """What the layers of a kind see: rotations (B or 1, 1, L, D / 2) of the positions, and a mask."""

    cos: Tensor
    sin: Tensor
    mask: Tensor | None  # (B or 1, 1, L, L), or in blocks for local layers of long sequences; None: everything
    block: int | None = None  # tokens of such a block: half a window


class ModernEmbeddings(Embeddings):
    """Token embeddings, normalized."""

    def __init__(self, config: ModernModel, shared: Embeddings | None = None) -> None:
        super().__init__(config, shared)
        self.words = nn.Embedding(config.vocab_size, config.hidden_size)
        self.start()
        self.norm = _norm(config)
        self.dropout = ops.Dropout(config.dropout)

    def forward(self, ids: Tensor) -> Tensor:
        """Embed (B, L) ids as (B, L, H)."""
        dropped: Tensor = self.dropout(ops.norm(F.embedding(ids.int(), self.table("words")), self.norm))
        return dropped


class SelfAttention(nn.Module):
    """Multi-head self-attention with rotary positions."""

    def __init__(self, config: ModernModel) -> None:
        super().__init__()
        self.heads = config.heads
        self.dropout = ops.Dropout(config.attention_dropout)
        self.query_key_value = _linear(config.hidden_size, 3 * config.hidden_size, config.initializer_std)
        self.output = _linear(config.hidden_size, config.hidden_size, _output_std(config))

    def forward(self, hidden: Tensor, view: View) -> Tensor:
        """Mix (B, L, H) hidden states of the tokens that see each other."""
        query, key, value = (ops.split_heads(part, self.heads) for part in ops.project(hidden, self.query_key_value, 3))
        query, key = rotate(query, view), rotate(key, view)
        if view.block:
            mixed = _attend_in_blocks(query, key, value, view, self.dropout)
        else:
            mixed = ops.attend(query, key, value, view.mask, self.dropout)
        output: Tensor = self.dropout(self.output(ops.join_heads(mixed)))
        return output


class Layer(nn.Module):
    """One Transformer block: attention and gated feed-forward, each of the normalized input and added to it."""

    def __init__(self, config: ModernModel, number: int) -> None:
        super().__init__()
        self.is_global = config.is_global(number)
        self.attention_norm = _norm(config) if number else nn.Identity()  # the embeddings are normalized already
        self.attention = SelfAttention(config)
        self.feed_forward_norm = _norm(config)
        self.expand = _linear(config.hidden_size, 2 * config.feed_forward_size, config.initializer_std)
        self.contract = _linear(config.feed_forward_size, config.hidden_size, _output_std(config))
        self.dropout = ops.Dropout(config.dropout)

    def forward(self, hidden: Tensor, view: View) -> Tensor:
        """Map (B, L, H) to (B, L, H)."""
        hidden = hidden + self.attention(self.attention_norm(hidden), view)
        activated, gate = ops.project(self.feed_forward_norm(hidden), self.expand, 2)
        output: Tensor = hidden + self.contract(self.dropout(F.gelu(activated) * gate))
        return output

    def weights(self, following: nn.LayerNorm) -> list[Tensor]:
        """Return all weights in the order of their use, as the fused stack takes them, with those of the next norm."""
        first = (self.attention.query_key_value, self.attention.output, self.feed_forward_norm)
        return [module.weight for module in (*first, self.expand, self.contract, following)]


class ModernBody(Body):
    """Embeddings, a stack of blocks, and a final norm."""

    family, model_types, prefix = "ModernBert", ("modernbert",), "model."
    embeddings_type, special_ids = ModernEmbeddings, SPECIAL_IDS
    config: ModernModel

    def __init__(
        self, config: ModelConfig, embeddings: Embeddings | None = None, direction: Direction = "both"
    ) -> None:
        super().__init__(config, embeddings, direction)
        assert isinstance(config, ModernModel)
        self.layers = nn.ModuleList(Layer(config, number) for number in range(config.layers))
        self.final_norm = _norm(config)

    def forward(self, ids: Tensor, attention: Tensor | None = None, types: Tensor | None = None) -> Tensor:
        hidden: Tensor = self.embeddings(ids)
        hidden = hidden.to(next(self.layers.parameters()).dtype)  # under autocast a norm widens them
        if ops.choose("pre_norm_stack", hidden) == "triton" and self._fits_stack(hidden):
            return self._run_stack(hidden, attention)
        views = {kind: self._view(ids, attention, kind) for kind in (True, False)}
        for layer in self.layers:
            hidden = self.run_block(layer, hidden, views[bool(layer.is_global)])
        return ops.norm(hidden, self.final_norm)

    def packs(self, dtype: torch.dtype, device: torch.device) -> bool:
        like = torch.empty(1, 1, 1, dtype=dtype, device=device)
        drops = self.config.dropout or self.config.attention_dropout
        return not drops and self._fits_stack(like) and ops.choose("pre_norm_stack", like) == "triton"

    def matrices(self) -> dict[str, int]:
        named = self.layers.named_parameters(prefix="layers")
        return {name: STACKED.get(name.split(".")[-2], 1) for name, weight in named if weight.dim() == 2}

    @classmethod
    def read_config(cls, described: Mapping[str, Any]) -> ModernModel:
        check_settings(described, REQUIRED | {"is_causal": False})
        values = {ours: described.get(theirs, default) for ours, (theirs, default) in CONFIG_KEYS.items()}
        values |= _read_positions(described)
        poolings = {theirs: ours for ours, theirs in POOLINGS.items()}
        if (pooling := described.get("classifier_pooling", "cls")) not in POOLINGS.values():
            raise CheckpointError(f"classifier_pooling = {pooling!r} is not supported, only {' or '.join(poolings)}")
        values["pooling"] = poolings[pooling]
        config = validated(ModernModel, values, {ours: theirs for ours, (theirs, _) in CONFIG_KEYS.items()})
        if "layer_types" in described and described["layer_types"] != _layer_types(config):
            raise CheckpointError("layer_types: only a global layer first and then every so many layers is supported")
        return config

    @classmethod
    def describe(cls, config: ModernModel) -> dict[str, Any]:
        values = {theirs: getattr(config, ours) for ours, (theirs, _) in CONFIG_KEYS.items()}
        dropouts = dict.fromkeys(("embedding_dropout", "classifier_dropout"), config.dropout)
        thetas = {GLOBAL: config.global_theta, LOCAL: config.local_theta}
        rope = {kind: {"rope_type": "default", "rope_theta": theta} for kind, theta in thetas.items()}
        now = {"layer_types": _layer_types(config), "rope_parameters": rope}  # since transformers 5
        return values | REQUIRED | dropouts | now | {"classifier_pooling": POOLINGS[config.pooling]}

    def file_names(self, name: str) -> list[str]:
        module, _, kind = name.rpartition(".")
        in_layer = re.fullmatch(r"(layers\.\d+\.)(.+)", module)
        block, part = in_layer.groups() if in_layer else ("", module)
        return [f"{block}{MODULES.get(part, part)}.{kind}"]

    def _fits_stack(self, hidden: Tensor) -> bool:
        """True for the blocks and shapes that the fused stack is made for: it has no dropout."""
        config = self.config
        widest = max(2 * config.feed_forward_size, 3 * config.hidden_size)
        drops = self.training and (config.dropout or config.attention_dropout)
        return not drops and self.fits_kernels(hidden, widest, Layer)

    def _run_stack(self, hidden: Tensor, texts: Tensor | None) -> Tensor:
        from electra.model.bodies.modern_stack import Places, Settings, run_blocks

        config, length, device = self.config, hidden.size(1), hidden.device
        bounds = None if texts is None else bounds_of(texts)
        head_size = config.hidden_size // config.heads
        dtype = torch.float16 if hidden.dtype == torch.bfloat16 else torch.float32  # finer than bf16 from -1 to 1
        thetas = config.global_theta, config.local_theta
        rows = 1 << (length - 1).bit_length()  # tables of few lengths, which are kept
        tables = [rotation_table(rows, theta, head_size, device, dtype) for theta in thetas]
        nexts: list[Any] = [*(layer.attention_norm for layer in list(self.layers)[1:]), self.final_norm]
        weights = [w for layer, norm in zip(self.layers, nexts, strict=True) for w in layer.weights(norm)]  # type: ignore[operator]
        settings = Settings(config.heads, config.layer_norm_eps, config.global_every, config.window // 2)
        return run_blocks(hidden, weights, Places(bounds, *tables[0], *tables[1]), settings)

    def _view(self, ids: Tensor, texts: Tensor | None, is_global: bool) -> View:
        config, length = self.config, ids.size(1)
        any_length = torch.compiler.is_exporting()  # to a graph, which cannot branch on the length
        place = torch.arange(length, device=ids.device)
        theta = config.global_theta if is_global else config.local_theta
        positions = place[None] if texts is None or any_length else place - bounds_of(texts)[0]
        cos, sin = rotations(positions, theta, config.hidden_size // config.heads)
        half = None if is_global else config.window // 2
        one_way = self.direction != "both"
        if half and not one_way and not any_length and length > 3 * half:
            return View(cos, sin, _mask_of_blocks(texts, length, half, ids.device), half)
        masks = [] if texts is None else [texts[:, None, :, None] == texts[:, None, None, :]]
        distance = place[:, None] - place[None, :]
        if half and (any_length or length > half + 1):
            masks.append(distance[None, None].abs() <= half)
        if one_way:
            masks.append((distance >= 0 if self.direction == "forward" else distance <= 0)[None, None])
        return View(cos, sin, reduce(and_, masks) if masks else None)


def rotations(positions: Tensor, theta: float, head_size: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (B or 1, 1, L, D / 2) of the angles by which positions (B or 1, L) rotate."""
    pairs = torch.arange(0, head_size, 2, dtype=torch.float32, device=positions.device)
    angles = positions[:, None, :, None].float() * (1.0 / theta ** (pairs / head_size))
    return angles.cos(), angles.sin()


@lru_cache(maxsize=32)
def rotation_table(
    length: int, theta: float, head_size: int, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Return the cosines and sines (L, D / 2) for the positions of a sequence."""
    with torch.inference_mode(False), torch.no_grad():
        cos, sin = rotations(torch.arange(length, device=device)[None], theta, head_size)
        return cos.view(length, -1).to(dtype), sin.view(length, -1).to(dtype)


def rotate(states: Tensor, view: View) -> Tensor:
    """Rotate queries or keys (B, heads, L, D) by their positions, in float32."""
    if torch.compiler.is_exporting():  # one operation of ONNX, which takes joined heads
        heads, joined = states.size(1), ops.join_heads(states)
        positions = torch.arange(joined.size(1), device=joined.device).expand(joined.shape[:2])
        cos, sin = view.cos[0, 0], view.sin[0, 0]
        return ops.split_heads(torch.onnx.ops.rotary_embedding(joined, cos, sin, positions, num_heads=heads), heads)
    first, second = states.float().chunk(2, dim=-1)
    left = torch.addcmul(first * view.cos, second, view.sin, value=-1)
    right = torch.addcmul(second * view.cos, first, view.sin)
    return torch.cat([left, right], dim=-1).to(states.dtype)


def _attend_in_blocks(query: Tensor, key: Tensor, value: Tensor, view: View, dropout: ops.Dropout) -> Tensor:
    """Attend within a window: each block of queries sees its own keys and those of the blocks next to it."""
    assert view.block
    length = query.size(2)
    queries = _blocks(query, view.block)  # (B, heads, blocks, half, D)
    keys, values = (_with_neighbors(_blocks(part, view.block)) for part in (key, value))  # 3 · half tokens each
    mixed = ops.attend(queries, keys, values, view.mask, dropout)
    return mixed.flatten(2, 3)[:, :, :length]


def _mask_of_blocks(texts: Tensor | None, length: int, half: int, device: torch.device) -> Tensor:
    """Return which keys (B or 1, 1, blocks, half, 3 · half) of its own and the next blocks a query sees."""
    if texts is None:
        texts = torch.zeros(1, length, dtype=torch.long, device=device)
    marked = F.pad(texts + 1, (0, -length % half))  # 0 in what fills the last block, so that it sees only itself
    own = marked.view(len(marked), -1, half, 1)
    others = _with_neighbors(own, outside=-1).transpose(-1, -2)  # (B, blocks, 1, 3 · half)
    place = torch.arange(half, device=device)
    distance = (place[:, None] + half - torch.arange(3 * half, device=device)).abs()
    seen: Tensor = (own == others) & (distance <= half)
    return seen[:, None]


def _blocks(states: Tensor, size: int) -> Tensor:
    """Cut (…, L, D) into blocks (…, blocks, size, D), the last one filled up with zeros."""
    filled = F.pad(states, (0, 0, 0, -states.size(-2) % size))
    return filled.view(*filled.shape[:-2], -1, size, filled.size(-1))


def _with_neighbors(blocks: Tensor, outside: int = 0) -> Tensor:
    """Join each of (…, blocks, size, D) with the blocks before and after it: (…, blocks, 3 · size, D)."""
    padded = F.pad(blocks, (0, 0, 0, 0, 1, 1), value=outside)
    return torch.cat([padded[..., :-2, :, :], blocks, padded[..., 2:, :, :]], dim=-2)


def _linear(inputs: int, outputs: int, std: float) -> nn.Linear:
    return normal_linear(inputs, outputs, std, bias=False)


def _norm(config: ModernModel) -> nn.LayerNorm:
    return nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps, bias=False)


def _output_std(config: ModernModel) -> float:
    """Return the deviation of what is added to the residual stream, 2 · layers times."""
    return config.initializer_std / math.sqrt(2 * config.layers)


def _layer_types(config: ModernModel) -> list[str]:
    return [GLOBAL if config.is_global(number) else LOCAL for number in range(config.layers)]


def _read_positions(described: Mapping[str, Any]) -> dict[str, Any]:
    """Read the keys that transformers 5 writes in another form: bases of the rotations, and kinds of layers."""
    values: dict[str, Any] = {}
    rope = described.get("rope_parameters") or {}
    if not isinstance(rope, dict) or not all(isinstance(rope.get(kind, {}), dict) for kind in (GLOBAL, LOCAL)):
        raise CheckpointError(f"rope_parameters: expected an object with {GLOBAL} and {LOCAL}, each an object")
    if odd := rope.keys() - {GLOBAL, LOCAL}:
        raise CheckpointError(f"rope_parameters: {min(odd)} is not supported, only {GLOBAL} and {LOCAL}")
    for ours, kind in (("global_theta", GLOBAL), ("local_theta", LOCAL)):
        found = rope.get(kind, {})
        if found.get("rope_type", "default") != "default":
            raise CheckpointError(f"rope_parameters: rope_type {found['rope_type']!r} is not supported")
        values |= {ours: found["rope_theta"]} if "rope_theta" in found else {}
    if described.get("rope_scaling") is not None:
        raise CheckpointError("rope_scaling is not supported")
    kinds = described.get("layer_types")
    if isinstance(kinds, list) and GLOBAL in kinds[1:]:  # otherwise the list is too short to tell
        values["global_every"] = kinds[1:].index(GLOBAL) + 1
    elif isinstance(kinds, list) and "global_attn_every_n_layers" not in described:
        values["global_every"] = max(len(kinds), 3)
    return values
