"""Model folders in Hugging Face's layout, which is also ours: read into networks, written from them.

Bodies and heads know their own names; this file only walks over the parameters.
"""

from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any, get_args

import torch
from pydantic import BaseModel, PositiveInt
from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.data.checksums import check, write_checksums
from electra.data.files import read_table, write_json
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import CheckpointError
from electra.model.bodies import BODIES
from electra.model.body import Body
from electra.model.heads import HEADS, Head, find_head, label_config
from electra.model.initialize import Undrawn
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, Network, Problem, TaskNetwork, TokenScorer
from electra.model.onnx import GRAPH, onnx_encoder, write_graph
from electra.model.sentences import MODULES, SentenceHead
from electra.model.tensors import CORRECTOR, HEAD, PATTERNS, SAFE, has_tensors, read_safe, read_tensors, write_tensors

FILES = ("config.json", *PATTERNS)
SCORES = "token_scores"  # in config.json: what a network that scores tokens means by them
TIED = ("generator_lm_head.weight", "cls.predictions.decoder.weight", "decoder.weight")  # output weights, in some files
AMBIGUOUS = frozenset({"classifier", "head.dense", "head.norm"})  # modules that heads of several tasks have
AnyNetwork = Network | Body


class _Labeling(BaseModel):
    """What config.json says about the head, if anything."""

    architectures: list[str] | None = None
    id2label: dict[str, Any] | None = None
    num_labels: PositiveInt = 2


def read_network(folder: Path) -> AnyNetwork:
    """Read the network of a Hugging Face folder: with a head that is known here, or else the bare encoder."""
    described, body, config = _read_config(folder)
    in_onnx = (folder / GRAPH).is_file() and not has_tensors(folder)
    stored = _read_onnx_head(folder) if in_onnx else read_tensors(folder)
    tensors = {body.current_name(name): tensor for name, tensor in stored.items()}
    if not in_onnx:
        _check_sizes(config.shape | {"num_labels": described.get("num_labels", 0)}, tensors, folder)
    with torch.device("meta"), Undrawn():
        encoder = onnx_encoder(body, config, folder / GRAPH) if in_onnx else body(config)
        network: AnyNetwork
        if (folder / MODULES).is_file():
            network = TaskNetwork(encoder, SentenceHead.read(folder, config))
        else:
            network = _with_head(encoder, tensors.keys(), described, folder / "config.json")
    weights = {
        ours: _take(network, tensors, theirs, parameter, folder)
        for (ours, parameter), theirs in zip(network.named_parameters(), file_names(network), strict=True)
    }
    network.load_state_dict(weights, assign=True)
    for name in TIED if isinstance(network, MaskedLM) else ():
        if name in tensors and not torch.equal(tensors[name].to(network.vocabulary), network.vocabulary):
            raise CheckpointError(f"{folder} has its own output weights {name}; here they are the word embeddings")
    return network.requires_grad_(True).eval()


def read_corrector(folder: Path, encoder: Body) -> Head | None:
    """Read the head that predicts the original tokens from a discriminator's states, if the folder has one."""
    if not (folder / CORRECTOR).is_file():
        return None
    with torch.device("meta"), Undrawn():
        head = encoder.token_head()
    tensors = read_safe(folder / CORRECTOR)
    weights = {
        name: _take(encoder, tensors, [name], parameter, folder / CORRECTOR)
        for name, parameter in head.named_parameters()
    }
    head.load_state_dict({name: weight.float() for name, weight in weights.items()}, assign=True)
    return head.requires_grad_(True).eval()


def write_corrector(head: Head, folder: Path, dtype: torch.dtype) -> None:
    """Write the head that predicts the original tokens; `transformers` ignores it."""
    write_tensors({name: tensor.to(dtype) for name, tensor in head.named_parameters()}, folder / CORRECTOR)


def read_shape(folder: Path) -> ModelConfig:
    """Read the shape of the encoder in a Hugging Face folder, without its weights."""
    return _read_config(folder)[2]


def encoder_of(network: AnyNetwork) -> Body:
    """Return the encoder of a network."""
    return network if isinstance(network, Body) else network.encoder


def architecture_of(network: AnyNetwork) -> str:
    """Return what config.json calls the network."""
    if isinstance(network, Body) or not network.head.names:  # a head without weights is not in the file
        return f"{encoder_of(network).family}Model"
    return network.head.stored_as


def write_network(
    network: AnyNetwork, folder: Path, dtype: torch.dtype = torch.float32, tokenizer: Tokenizer | None = None
) -> None:
    """Write `config.json`, `model.safetensors` and the tokenizer so that classes of `transformers` load them."""
    _write_config(network, folder, dtype, tokenizer)
    write_tensors({name: tensor.to(dtype) for name, tensor in _file_tensors(network)}, folder / SAFE)


def write_onnx(network: AnyNetwork, folder: Path, tokenizer: Tokenizer, int8: bool) -> float:
    """Write `config.json`, a graph and the tokenizer so that classes of `optimum` load them, and our head besides.

    Returns by how much an output of onnxruntime differs from PyTorch's.
    """
    if isinstance(network, MaskedLM):
        raise CheckpointError("a masked language model cannot be exported to ONNX; fine-tune it first")
    tensors = dict(_file_tensors(network))
    _write_config(network, folder, torch.float32, tokenizer)
    if isinstance(network, Network) and network.head.names:
        names = [network.head.file_name(name) for name, _ in network.head.named_parameters()]
        write_tensors({name: tensors[name] for name in names}, folder / HEAD)
    path = folder / GRAPH
    difference = write_graph(network, path, int8)
    write_checksums(path.parent)
    return difference


def _write_config(network: AnyNetwork, folder: Path, dtype: torch.dtype, tokenizer: Tokenizer | None) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    encoder = encoder_of(network)
    if tokenizer:
        tokenizer.save(folder, types=encoder.config.has_types)
    architecture = architecture_of(network)
    described = {
        "architectures": [architecture],
        "model_type": encoder.model_types[0],
        **encoder.describe(encoder.config),
        **{key: getattr(tokenizer, ours, None) for key, ours in encoder.special_ids.items()},
        "tie_word_embeddings": True,
        "dtype": str(dtype).removeprefix("torch."),
        **({} if isinstance(network, Body) else network.head.described),
        **(_describe_labels(network) if isinstance(network, TaskNetwork) else {}),
        **({SCORES: network.scores} if isinstance(network, TokenScorer) else {}),
    }
    write_json(folder / "config.json", described)
    if isinstance(network, TaskNetwork) and isinstance(network.head, SentenceHead):
        network.head.save(folder, tokenizer.longest if tokenizer else None)


def _file_tensors(network: AnyNetwork) -> Iterator[tuple[str, Tensor]]:
    """Yield the weights of a network as a file has them."""
    prefix = "" if architecture_of(network) == f"{encoder_of(network).family}Model" else encoder_of(network).prefix
    for (ours, parameter), theirs in zip(network.state_dict().items(), file_names(network), strict=True):
        for name, part in zip(theirs, parameter.chunk(len(theirs)), strict=True):
            if isinstance(network, Network) and ours.startswith("head."):
                yield name, network.head.to_file(name, part)
            else:
                yield prefix + name, part


def file_names(network: AnyNetwork) -> Iterator[list[str]]:
    """Return for each of our parameters the tensors of a file that it is joined from, without the encoder's prefix."""
    for name, _ in network.named_parameters():
        if isinstance(network, Network) and name.startswith("head."):
            yield [network.head.file_name(name.removeprefix("head."))]
        else:
            yield encoder_of(network).file_names(name.removeprefix("encoder."))


def _read_config(folder: Path) -> tuple[dict[str, Any], type[Body], ModelConfig]:
    """Read config.json: return its content, the class of its body and the body's shape."""
    path = folder / "config.json"
    check(folder, [path.name])
    if not path.is_file():
        raise CheckpointError(f"no config.json in {folder}: not a model folder")
    described = read_table(path, "a model's config", CheckpointError, _Labeling)
    kind, known = described.get("model_type"), [kind for body in BODIES.values() for kind in body.model_types]
    if kind not in known:
        raise CheckpointError(f"{path} has model_type {kind!r}; supported: {', '.join(known)}")
    body = next(body for body in BODIES.values() if kind in body.model_types)
    try:
        return described, body, body.read_config(described)
    except CheckpointError as problem:
        raise CheckpointError(f"{path}: {problem}") from None


def _read_onnx_head(folder: Path) -> dict[str, Tensor]:
    """Read the weights of the head of an ONNX folder; a bare encoder has none."""
    check(folder, [HEAD])
    check((folder / GRAPH).parent)
    return read_safe(folder / HEAD) if (folder / HEAD).is_file() else {}


def _check_sizes(sizes: Mapping[str, Any], tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Refuse sizes that the weights cannot have before anything of that size is built."""
    weights = sum(tensor.numel() for tensor in tensors.values())
    for key, size in sizes.items():
        most = len(tensors) if key == "layers" else weights
        if isinstance(size, int) and size > most:
            held = f"its weights are {weights:,} numbers in {len(tensors):,} tensors"
            raise CheckpointError(f"the config.json of {folder} says {key} {size}, but {held}")


def _with_head(encoder: Body, names: Set[str], described: Mapping[str, Any], path: Path) -> AnyNetwork:
    """Put the head on an encoder that the file has tensors for."""
    scores = described.get(SCORES)
    declared = f"{encoder.family}ForPreTraining" if scores else (described.get("architectures") or [""])[0]
    kind = _find_head(names, declared, encoder.family)
    if kind is None:
        return encoder
    if kind.role == "detection":
        return EnergyModel(encoder) if scores == EnergyModel.scores else Discriminator(encoder)
    if kind.role == "prediction":
        return MaskedLM(encoder)
    make: Any = kind
    if not kind.labeled:
        return TaskNetwork(encoder, make(encoder.config))
    labels = _read_labels(described, path)
    problem: Problem | None = described.get("problem_type")
    if problem not in (None, *get_args(Problem)):
        raise CheckpointError(f"{path} has problem_type {problem!r}; supported: {', '.join(get_args(Problem))}")
    if problem is None and kind.labeled == "texts":
        problem = "single_label_classification" if len(labels) > 1 else "regression"
    if problem == "regression" and len(labels) > 1:
        raise CheckpointError(f"{path} is a regression with {len(labels)} outputs; only one is supported")
    return TaskNetwork(encoder, make(encoder.config, len(labels)), labels, problem)


def _find_head(names: Set[str], architecture: str, family: str) -> type[Head] | None:
    """Return the class of the head that a file holds: the one it declares, or else the one whose tensors it has."""

    def present(head: type[Head]) -> list[bool]:
        return [bool({f"{module}.weight", f"{module}.bias"} & names) for module in head.names.values()]

    declared: type[Head] | None = find_head(architecture)
    if declared and any(present(declared)):
        return declared
    related: type[Head] | None = find_head(f"{family}For{architecture.partition('For')[2]}")  # as BERT's taggers
    # Several heads have tensors of these names: without a declaration they could be any of them.
    others = [head for head in HEADS.values() if not AMBIGUOUS.issuperset(head.names.values())]
    return next((head for head in (related, *others) if head and all(present(head))), None)


def _read_labels(described: Mapping[str, Any], path: Path) -> list[str]:
    found = described.get("id2label")
    if found is None:
        return [f"LABEL_{number}" for number in range(described.get("num_labels", 2))]  # as in `transformers`
    try:
        labels = [str(found[str(number)]) for number in range(len(found))]
    except KeyError:
        raise CheckpointError(f"{path} does not number its labels from 0 to {len(found) - 1} in id2label") from None
    if len(set(labels)) < len(labels):
        raise CheckpointError(f"{path} has two labels of the same name in id2label: {', '.join(labels)}")
    return labels


def _describe_labels(network: TaskNetwork) -> dict[str, Any]:
    described: dict[str, Any] = {}
    if network.labels:
        described |= label_config(network.labels)
    if network.problem:
        described["problem_type"] = network.problem
    return described


def _take(network: AnyNetwork, tensors: dict[str, Tensor], names: list[str], parameter: Tensor, folder: Path) -> Tensor:
    missing = [name for name in names if name not in tensors]
    if missing:
        raise CheckpointError(f"the weights in {folder} lack {missing[0]}, which its config.json asks for")
    tensor = torch.cat([tensors[name] for name in names])
    if isinstance(network, Network):
        tensor = network.head.from_file(names[0], tensor)
    if not tensor.is_floating_point():
        raise CheckpointError(f"{names[0]} in {folder} holds {tensor.dtype}: quantized weights are not supported")
    if tensor.shape != parameter.shape:
        found, wanted = tuple(tensor.shape), tuple(parameter.shape)
        raise CheckpointError(f"{names[0]} in {folder} has shape {found}, its config.json asks for {wanted}")
    if not tensor.sum().isfinite():
        raise CheckpointError(f"{names[0]} in {folder} holds NaN or infinite weights; restore it or train it again")
    return tensor
