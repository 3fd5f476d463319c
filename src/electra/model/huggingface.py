"""Hugging Face's folder layout is also ours: this file maps its config and tensor names to our modules and back."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from electra.config.schema import ModelConfig
from electra.errors import CheckpointError
from electra.model.encoder import Encoder
from electra.model.networks import Discriminator, MaskedLM
from electra.model.weights import PATTERNS, SAFE, read_tensors, write_tensors

Network = Discriminator | MaskedLM | Encoder
FILES = ("config.json", *PATTERNS)
ARCHITECTURES = {Discriminator: "ElectraForPreTraining", MaskedLM: "ElectraForMaskedLM", Encoder: "ElectraModel"}

CONFIG_KEYS = {  # ours: (theirs, what they take when the key is absent, for electra and for bert)
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
EMBEDDINGS = {
    "embeddings.words": "embeddings.word_embeddings",
    "embeddings.positions": "embeddings.position_embeddings",
    "embeddings.types": "embeddings.token_type_embeddings",
    "embeddings.norm": "embeddings.LayerNorm",
    "project": "embeddings_project",
}
LAYER = {
    "attention.output": "attention.output.dense",
    "attention_norm": "attention.output.LayerNorm",
    "expand": "intermediate.dense",
    "contract": "output.dense",
    "feed_forward_norm": "output.LayerNorm",
}
DISCRIMINATOR_HEAD = {
    "head.dense": "discriminator_predictions.dense",
    "head.score": "discriminator_predictions.dense_prediction",
}
GENERATOR_HEAD = {
    "head.dense": "generator_predictions.dense",
    "head.norm": "generator_predictions.LayerNorm",
    "head": "generator_lm_head",
}
BERT_HEAD = {  # BERT's masked-LM head is the generator's under other names
    "cls.predictions.transform.dense": "generator_predictions.dense",
    "cls.predictions.transform.LayerNorm": "generator_predictions.LayerNorm",
    "cls.predictions": "generator_lm_head",
}


def read_network(folder: Path) -> Network:
    """Read the network of a Hugging Face folder: a discriminator, a masked LM, or the bare encoder of anything else."""
    config = read_config(folder)
    tensors = {_modern_name(name): tensor for name, tensor in read_tensors(folder).items()}
    with torch.device("meta"):  # the weights come from the file: drawing initial ones would be wasted
        encoder = Encoder(config)
        network: Network = encoder
        if any(name.startswith("discriminator_predictions.") for name in tensors):
            network = Discriminator(encoder)
        elif any(name.startswith("generator_predictions.") for name in tensors):
            network = MaskedLM(encoder)
    weights = {
        ours: _take(tensors, theirs, parameter, folder)
        for (ours, parameter), theirs in zip(network.named_parameters(), huggingface_names(network), strict=True)
    }
    network.load_state_dict(weights, assign=True)
    return network.requires_grad_(True).eval()


def write_network(network: Network, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write `config.json` and `model.safetensors` so that the matching class of `transformers` loads them."""
    folder.mkdir(parents=True, exist_ok=True)
    config = network.config if isinstance(network, Encoder) else network.encoder.config
    described = {
        "architectures": [ARCHITECTURES[type(network)]],
        "model_type": "electra",
        **{theirs: getattr(config, ours) for ours, (theirs, *_) in CONFIG_KEYS.items()},
        "hidden_act": "gelu",
        "pad_token_id": 0,
        "tie_word_embeddings": True,
        "dtype": str(dtype).removeprefix("torch."),
    }
    (folder / "config.json").write_text(json.dumps(described, indent=2) + "\n", encoding="utf-8")
    prefix = "" if isinstance(network, Encoder) else "electra."
    tensors: dict[str, Tensor] = {}
    for (_, parameter), theirs in zip(network.named_parameters(), huggingface_names(network), strict=True):
        for name, part in zip(theirs, parameter.chunk(len(theirs)), strict=True):
            tensors[name if _is_head(name) else prefix + name] = part.to(dtype)
    write_tensors(tensors, folder / SAFE)


def read_config(folder: Path) -> ModelConfig:
    """Read the shape of the network from `config.json`."""
    path = folder / "config.json"
    if not path.is_file():
        raise CheckpointError(f"no config.json in {folder}: not a model folder")
    try:
        theirs: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        kind = theirs.get("model_type")
    except (ValueError, AttributeError) as problem:
        raise CheckpointError(f"{path} is not a model's config: {problem}") from None
    if kind not in ("electra", "bert"):
        raise CheckpointError(f"{path} is of architecture {kind!r}; only 'electra' and 'bert' fit this encoder")
    for key, needed in (("hidden_act", "gelu"), ("position_embedding_type", "absolute")):
        if theirs.get(key, needed) != needed:
            raise CheckpointError(f"{path} has {key} = {theirs[key]!r}; this encoder has {needed!r} alone")
    default = 1 if kind == "electra" else 2
    values = {ours: theirs.get(entry[0], entry[default]) for ours, entry in CONFIG_KEYS.items()}
    if kind == "bert":
        values["embedding_size"] = values["hidden_size"]
    try:
        return ModelConfig.model_validate(values)
    except ValidationError as problem:
        error = problem.errors()[0]
        where = ".".join(CONFIG_KEYS[str(item)][0] for item in error["loc"])
        raise CheckpointError(f"{path} describes an impossible model: {where} {error['msg']}") from None


def huggingface_names(network: Network) -> Iterator[list[str]]:
    """Give for each of our parameters the tensor it is in a Hugging Face file, or the three it is joined from."""
    head = {Discriminator: DISCRIMINATOR_HEAD, MaskedLM: GENERATOR_HEAD, Encoder: {}}[type(network)]
    for name, _ in network.named_parameters():
        module, _, kind = name.removeprefix("encoder.").rpartition(".")
        if module in head:
            yield [f"{head[module]}.{kind}"]
        elif in_layer := re.fullmatch(r"layers\.(\d+)\.(.+)", module):
            layer, part = in_layer.groups()
            parts = [LAYER[part]] if part in LAYER else [f"attention.self.{role}" for role in ("query", "key", "value")]
            yield [f"encoder.layer.{layer}.{part}.{kind}" for part in parts]
        else:
            yield [f"{EMBEDDINGS[module]}.{kind}"]


def _is_head(name: str) -> bool:
    return name.startswith(("discriminator_", "generator_"))


def _modern_name(name: str) -> str:
    """Bring names of BERT and of old files to those of today's ELECTRA, without the prefix."""
    name = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", name))
    name = re.sub(r"^(electra|bert)\.", "", name)
    module, _, kind = name.rpartition(".")
    return f"{BERT_HEAD[module]}.{kind}" if module in BERT_HEAD else name


def _take(tensors: dict[str, Tensor], names: list[str], parameter: Tensor, folder: Path) -> Tensor:
    missing = [name for name in names if name not in tensors]
    if missing:
        raise CheckpointError(f"the weights in {folder} lack {missing[0]}, which its config.json asks for")
    tensor = torch.cat([tensors[name] for name in names])
    if tensor.shape != parameter.shape:
        found, wanted = tuple(tensor.shape), tuple(parameter.shape)
        raise CheckpointError(f"{names[0]} in {folder} has shape {found}, its config.json asks for {wanted}")
    return tensor
