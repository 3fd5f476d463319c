"""Hugging Face's folder layout is also ours: this file maps its config and tensor names to our modules and back."""

import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple, get_args

import torch
from pydantic import ValidationError
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from electra.config.schema import ModelConfig
from electra.data.files import read_table, write_json
from electra.errors import CheckpointError
from electra.model.encoder import Encoder
from electra.model.heads import (
    ClassificationHead,
    DiscriminatorHead,
    GeneratorHead,
    HuggingFaceClassificationHead,
    HuggingFaceSpanHead,
    QuestionAnsweringHead,
    TaggingHead,
)
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, Problem, TaskNetwork
from electra.model.tensors import PATTERNS, SAFE, read_tensors, write_tensors

Network = Discriminator | EnergyModel | MaskedLM | TaskNetwork | Encoder
FILES = ("config.json", *PATTERNS)
ONLY = {"hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False}
ENERGIES = {"token_scores": "energies"}  # in the config.json of an EnergyModel, for which `transformers` has no word


class Layout(NamedTuple):
    """What a network is called in a file, by the head that stands on the encoder."""

    architecture: str
    modules: dict[str, str]  # of the head: our names to theirs


LAYOUTS: dict[type[nn.Module] | None, Layout] = {
    DiscriminatorHead: Layout(
        "ElectraForPreTraining",
        {"dense": "discriminator_predictions.dense", "score": "discriminator_predictions.dense_prediction"},
    ),
    GeneratorHead: Layout(
        "ElectraForMaskedLM",
        {"dense": "generator_predictions.dense", "norm": "generator_predictions.LayerNorm", "": "generator_lm_head"},
    ),
    HuggingFaceClassificationHead: Layout(
        "ElectraForSequenceClassification", {"dense": "classifier.dense", "linear": "classifier.out_proj"}
    ),
    TaggingHead: Layout("ElectraForTokenClassification", {"linear": "classifier"}),
    HuggingFaceSpanHead: Layout("ElectraForQuestionAnswering", {"linear": "qa_outputs"}),
    # The paper's own heads are in no class of `transformers`: to it such a folder is the encoder, and the rest unknown.
    ClassificationHead: Layout("PaperClassification", {"linear": "paper_classifier"}),
    QuestionAnsweringHead: Layout(
        "PaperQuestionAnswering",
        {name: f"paper_spans.{name}" for name in ("start", "end_hidden", "end", "answer_hidden", "answer")},
    ),
    None: Layout("ElectraModel", {}),
}
LABELLED = (HuggingFaceClassificationHead, TaggingHead, ClassificationHead)  # as many outputs as labels

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
BERT_HEAD = {  # BERT's masked-LM head is the generator's under other names
    "cls.predictions.transform.dense": "generator_predictions.dense",
    "cls.predictions.transform.LayerNorm": "generator_predictions.LayerNorm",
    "cls.predictions": "generator_lm_head",
}


class _Undrawn(TorchFunctionMode):
    """Leaves embeddings undrawn, whose weights come from a file: PyTorch would import its compiler for that."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if function is nn.init.normal_ else function(*args, **(kwargs or {}))


def read_network(folder: Path) -> Network:
    """Read the network of a Hugging Face folder: with a head that is known here, or else the bare encoder."""
    config = read_config(folder)
    tensors = {_modern_name(name): tensor for name, tensor in read_tensors(folder).items()}
    with torch.device("meta"), _Undrawn():
        network = _with_head(Encoder(config), tensors, folder)
    weights = {
        ours: _take(tensors, theirs, parameter, folder)
        for (ours, parameter), theirs in zip(network.named_parameters(), huggingface_names(network), strict=True)
    }
    network.load_state_dict(weights, assign=True)
    if isinstance(network, MaskedLM):
        _check_tied(network, tensors, folder)
    return network.requires_grad_(True).eval()


def _check_tied(network: MaskedLM, tensors: dict[str, Tensor], folder: Path) -> None:
    words = network.encoder.embeddings.words.weight
    for name in ("generator_lm_head.weight", "cls.predictions.decoder.weight"):
        if name in tensors and not torch.equal(tensors[name].to(words), words):
            raise CheckpointError(f"{folder} has output weights of its own, {name}; here they are the word embeddings")


def encoder_of(network: Network) -> Encoder:
    """Give the encoder of a network, whatever head stands on it."""
    return network if isinstance(network, Encoder) else network.encoder


def write_network(network: Network, folder: Path, dtype: torch.dtype = torch.float32, pad_id: int = 0) -> None:
    """Write `config.json` and `model.safetensors` so that the matching class of `transformers` loads them."""
    folder.mkdir(parents=True, exist_ok=True)
    config = encoder_of(network).config
    described = {
        "architectures": [layout(network).architecture],
        "model_type": "electra",
        **{theirs: getattr(config, ours) for ours, (theirs, *_) in CONFIG_KEYS.items()},
        "hidden_act": "gelu",
        "pad_token_id": pad_id,
        "tie_word_embeddings": True,
        "dtype": str(dtype).removeprefix("torch."),
        **(_describe_labels(network) if isinstance(network, TaskNetwork) else {}),
        **(ENERGIES if isinstance(network, EnergyModel) else {}),
    }
    write_json(folder / "config.json", described)
    prefix = "" if isinstance(network, Encoder) else "electra."
    tensors: dict[str, Tensor] = {}
    for (ours, parameter), theirs in zip(network.named_parameters(), huggingface_names(network), strict=True):
        for name, part in zip(theirs, parameter.chunk(len(theirs)), strict=True):
            tensors[name if ours.startswith("head.") else prefix + name] = part.to(dtype)
    write_tensors(tensors, folder / SAFE)


def read_config(folder: Path) -> ModelConfig:
    """Read the shape of the network from `config.json`."""
    path = folder / "config.json"
    theirs = _read_description(path)
    kind = theirs.get("model_type")
    if kind not in ("electra", "bert"):
        raise CheckpointError(f"{path} is of architecture {kind!r}; only 'electra' and 'bert' fit this encoder")
    for key, needed in ONLY.items():
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
    head = layout(network).modules
    for name, _ in network.named_parameters():
        module, _, kind = name.removeprefix("encoder.").rpartition(".")
        if name.startswith("head."):
            yield [f"{head[module.removeprefix('head').removeprefix('.')]}.{kind}"]
        elif in_layer := re.fullmatch(r"layers\.(\d+)\.(.+)", module):
            layer, part = in_layer.groups()
            parts = [LAYER[part]] if part in LAYER else [f"attention.self.{role}" for role in ("query", "key", "value")]
            yield [f"encoder.layer.{layer}.{part}.{kind}" for part in parts]
        else:
            yield [f"{EMBEDDINGS[module]}.{kind}"]


def layout(network: Network) -> Layout:
    """Say what the network is called in a file."""
    return LAYOUTS[None if isinstance(network, Encoder) else type(network.head)]


def _read_description(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise CheckpointError(f"no config.json in {path.parent}: not a model folder")
    return read_table(path, "a model's config", CheckpointError)


def _with_head(encoder: Encoder, names: Collection[str], folder: Path) -> Network:
    """Put the head on an encoder that the file has tensors for."""
    described = _read_description(folder / "config.json")
    kind = _find_head(names, (described.get("architectures") or [""])[0])
    if kind is None:
        return encoder
    if kind is DiscriminatorHead:
        return EnergyModel(encoder) if described.items() >= ENERGIES.items() else Discriminator(encoder)
    if kind is GeneratorHead:
        return MaskedLM(encoder)
    if kind not in LABELLED:
        return TaskNetwork(encoder, kind(encoder.config))
    labels = _read_labels(described, folder / "config.json")
    problem: Problem | None = described.get("problem_type")
    if problem not in (None, *get_args(Problem)):
        raise CheckpointError(f"{folder} has problem_type = {problem!r}; known are {', '.join(get_args(Problem))}")
    if problem is None and kind is not TaggingHead:
        problem = "single_label_classification" if len(labels) > 1 else "regression"
    if problem == "regression" and len(labels) > 1:
        raise CheckpointError(f"{folder} gives {len(labels)} values at once; heads of one value are supported")
    return TaskNetwork(encoder, kind(encoder.config, len(labels)), labels, problem)


def _find_head(names: Collection[str], architecture: str) -> Any:
    """Give the class of the head that a file holds, by the names of its tensors."""
    for kind, (_, modules) in LAYOUTS.items():
        # A lone `classifier` is a tagger's; BERT's sentence classifiers and multiple choice call another head so.
        if kind is TaggingHead and not architecture.endswith("ForTokenClassification"):
            continue
        if any(f"{module}.bias" in names for module in modules.values()):
            return kind
    return None


def _read_labels(described: dict[str, Any], path: Path) -> list[str]:
    found = described.get("id2label")
    if found is None:
        return [f"LABEL_{number}" for number in range(described.get("num_labels", 2))]  # as `transformers` calls them
    try:
        labels = [str(found[str(number)]) for number in range(len(found))]
    except (KeyError, TypeError):
        raise CheckpointError(f"{path} does not number its labels from 0 to {len(found) - 1} in id2label") from None
    if len(set(labels)) < len(labels):
        raise CheckpointError(f"{path} has one name for two labels in id2label: {', '.join(labels)}")
    return labels


def _describe_labels(network: TaskNetwork) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if network.labels:
        described["id2label"] = {str(number): label for number, label in enumerate(network.labels)}
        described["label2id"] = {label: number for number, label in enumerate(network.labels)}
    if network.problem:
        described["problem_type"] = network.problem
    return described


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
    if not tensor.is_floating_point():
        raise CheckpointError(f"{names[0]} in {folder} holds {tensor.dtype}: quantised weights are not supported")
    if tensor.shape != parameter.shape:
        found, wanted = tuple(tensor.shape), tuple(parameter.shape)
        raise CheckpointError(f"{names[0]} in {folder} has shape {found}, its config.json asks for {wanted}")
    return tensor
