"""Import from and export to Hugging Face folders, and check that nothing changed on the way."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import torch

from electra.config import preset_names
from electra.config.bodies import ModelConfig
from electra.config.load import dump_config, load_config
from electra.config.objectives import ElectraObjective, MaskedLMGenerator, MLMObjective
from electra.config.schema import PretrainConfig
from electra.data.checksums import CHECKSUMS, write_checksums
from electra.data.files import atomic_folder, write_json
from electra.data.reading.hub import locate
from electra.data.storage import is_remote, local_path, working_copy
from electra.errors import CheckpointError, ConfigError
from electra.model.huggingface import (
    FILES,
    AnyNetwork,
    architecture_of,
    encoder_of,
    read_network,
    write_corrector,
    write_network,
    write_onnx,
)
from electra.model.networks import MaskedLM, TaskNetwork
from electra.model.precision import device_of
from electra.model.pretrained import GENERATOR, TASK, Pretrained, find_folder, load
from electra.model.task_model import TaskModel, read_task, write_task_model
from electra.recipes.card import model_card, onnx_card, training_facts
from electra.training.run import run_of

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}
FORMATS = ("huggingface", "onnx")
ROUNDING = 1e-5  # of hidden states that are computed twice, relative to the largest


def export(
    source: str | Path,
    out: str | Path,
    precision: Literal["float32", "bf16"] = "float32",
    format: Literal["huggingface", "onnx"] = "huggingface",
    int8: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write a model as a plain Hugging Face folder, its generator at `out/generator`, and check what was written.

    In bf16 the files are half as large: the weights are rounded, and the rounded model must read back unchanged.
    With `format="onnx"` the folder has a graph for onnxruntime instead of weights, and no generator; `int8`
    rounds the encoder's matrices to 8 bits, which is faster on a CPU. `say` is called with what the check found.
    """
    _check_options(precision, format, int8)
    dtype = DTYPES[precision]
    model = load(source, device="cpu")
    for network in filter(None, (model.network, model.generator)):
        network.to(dtype).float()
    with _new_folder(out, CHECKSUMS) as folder:
        place = find_folder(source)
        run = run_of(place)
        facts = training_facts(run) if run else {}
        found = "reads back with equal logits"
        if format == "onnx":
            found = _write_onnx(model, folder, int8, read_task(place), facts)
        elif isinstance(model.network, TaskNetwork):
            _write_task_model(TaskModel(model.network, model.tokenizer, read_task(place)), folder, dtype, facts)
        else:
            write_model(model, folder, dtype, facts)
    say(found if precision == "float32" else f"{found} (of the weights rounded to {precision})")
    return local_path(out)


def import_model(source: str | Path, out: str | Path, generator: str | Path | None = None) -> Pretrained:
    """Import an ELECTRA, BERT or ModernBERT, with its generator if there is one, as a folder to continue from."""
    model = load(source, device="cpu")
    if generator:
        network = read_network(locate(generator, FILES, CheckpointError))
        if not isinstance(network, MaskedLM):
            raise CheckpointError(f"{generator} is not a generator: it has no masked-LM head")
        model = Pretrained(model.network, model.tokenizer, network, corrector=model.corrector)
    write_start(model, out, read_task(find_folder(source)))
    return model


def write_start(model: Pretrained, out: str | Path, task: Mapping[str, Any] | None = None) -> None:
    """Write a folder that training can start from: a model, what it was fine-tuned for, if at all, and its config."""
    with _new_folder(out, f"model/{CHECKSUMS}") as folder:
        place = folder / "model"
        place.mkdir()
        if task:
            write_json(place / TASK, task)
        write_model(model, place)
        (folder / "config.toml").write_text(dump_config(config_of(model)), encoding="utf-8")


@contextmanager
def _new_folder(out: str | Path, seal: str) -> Iterator[Path]:
    """Create a folder that must not exist, except in object storage without the file that is uploaded last."""
    with (
        working_copy(out) as place,
        atomic_folder(place, overwrite=is_remote(out) and not (place / seal).is_file()) as folder,
    ):
        yield folder


def write_model(
    model: Pretrained, folder: Path, dtype: torch.dtype = torch.float32, facts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write networks, tokenizer and model card, read them back and compare."""
    networks = {folder: model.network} | ({folder / GENERATOR: model.generator} if model.generator else {})
    for place, network in networks.items():
        write_network(network, place, dtype, model.tokenizer)
        _check(network, place)
    if model.corrector:
        write_corrector(model.corrector, folder, dtype)
    for place in networks:
        write_checksums(place)
    (folder / "README.md").write_text(model_card(model, dtype, facts), encoding="utf-8")


def _write_task_model(model: TaskModel, folder: Path, dtype: torch.dtype, facts: Mapping[str, str]) -> None:
    """Write a fine-tuned model so that `transformers` has a class for it, and check what was written."""
    tuned = model.network
    head = tuned.head.exported(tuned.encoder.config)
    network = TaskNetwork(tuned.encoder, head, tuned.labels, tuned.problem)
    if not architecture_of(network).startswith(tuned.encoder.family):
        wanted = f"transformers has no {tuned.encoder.family} class with the paper's head"
        raise CheckpointError(f"{wanted}; fine-tune with head=huggingface to export")
    write_task_model(replace(model, network=network), folder, dtype)
    (folder / "README.md").write_text(model_card(Pretrained(network, model.tokenizer), dtype, facts), encoding="utf-8")
    _check(network, folder)


def _check_options(precision: str, format: str, int8: bool) -> None:
    if precision not in DTYPES:
        raise ConfigError(f"unknown precision {precision!r}; use {' or '.join(DTYPES)}")
    if format not in FORMATS:
        raise ConfigError(f"unknown format {format!r}; use {' or '.join(FORMATS)}")
    if format == "onnx" and precision != "float32":
        raise ConfigError(f"an ONNX model has float32 weights, or --int8; drop --precision {precision}")
    if int8 and format != "onnx":
        raise ConfigError("--int8 is for --format onnx")


def _write_onnx(model: Pretrained, folder: Path, int8: bool, task: Mapping[str, Any], facts: Mapping[str, str]) -> str:
    """Write graph, tokenizer and model card, read the graph back, and return what comparing it found."""
    difference = write_onnx(model.network, folder, model.tokenizer, int8)
    whole = "their norm" if int8 else "the largest"
    found = f"outputs of onnxruntime differ from PyTorch's by at most {difference:.2g} of {whole}"
    (folder / "README.md").write_text(onnx_card(model, int8, found, facts), encoding="utf-8")
    if task:
        write_json(folder / TASK, task)
    write_checksums(folder)
    read_network(folder)
    return found


def config_of(model: Pretrained) -> PretrainConfig:
    """Return a pre-training config for a model, with the settings of the preset of the nearest size."""
    shape = model.encoder.config
    suitable = [
        preset
        for preset in map(load_config, preset_names())
        if preset.model.body == shape.body
        and isinstance(getattr(preset.objective, "generator", None), MaskedLMGenerator)
        # What eases a start from random weights, as in `small-muon`, would set a trained model back.
        and not preset.train.start_length
    ]
    nearest = min(suitable, key=lambda preset: abs(preset.model.hidden_size - shape.hidden_size))
    usual = nearest.objective
    assert isinstance(usual, ElectraObjective)
    assert isinstance(usual.generator, MaskedLMGenerator)
    objective: ElectraObjective | MLMObjective
    if isinstance(model.network, MaskedLM):
        objective = MLMObjective(mask_fraction=usual.mask_fraction)
    else:
        generator = _describe_generator(shape, model) if model.generator else _usual_generator(shape, usual.generator)
        generator = generator.model_copy(update={"rate": usual.generator.rate})
        objective = usual.model_copy(update={"generator": generator})
    length = model.tokenizer.longest or nearest.train.length
    train = nearest.train.model_copy(update={"length": min(length, shape.max_length)})
    return nearest.model_copy(update={"model": shape, "objective": objective, "train": train})


def _usual_generator(shape: ModelConfig, usual: MaskedLMGenerator) -> MaskedLMGenerator:
    """Return a generator as wide as the preset's, or of about a quarter of the width, a multiple of the head size."""
    if usual.width == 1:
        return usual
    quarter = shape.hidden_size / 4
    size = quarter if quarter < 128 else 64 * round(quarter / 64)
    return MaskedLMGenerator(width=size / shape.hidden_size)


def _describe_generator(shape: ModelConfig, model: Pretrained) -> MaskedLMGenerator:
    assert model.generator is not None
    found = model.generator.encoder.config
    shared = torch.equal(model.generator.vocabulary, model.encoder.vocabulary)
    width, depth = found.hidden_size / shape.hidden_size, found.layers / shape.layers
    described = MaskedLMGenerator(width=width, depth=depth, sharing="embeddings" if shared else "none")
    derived = described.model(shape).shape
    for key, value in found.shape.items():
        if value != derived[key]:
            raise CheckpointError(
                f"the generator has {key} {value}, but would be trained with {derived[key]} next to this "
                "discriminator: import the discriminator without it"
            )
    return described


@torch.inference_mode()
def _check(network: AnyNetwork, folder: Path) -> None:
    """Read a folder back and compare all weights, and hidden states up to rounding, which may depend on addresses."""
    device = device_of(network)
    reread = read_network(folder).to(device)
    config = encoder_of(reread).config
    length = min(config.max_length, 64)
    ids = torch.randint(config.vocab_size, (2, length), generator=torch.Generator().manual_seed(0)).to(device)
    attention = torch.ones_like(ids)
    attention[1, length // 2 :] = 0
    ours, theirs = (encoder_of(candidate.eval())(ids, attention) for candidate in (network, reread))
    weights = zip(network.named_parameters(), reread.named_parameters(), strict=True)
    differ = [name for (name, a), (other, b) in weights if name != other or not torch.equal(a, b)]
    difference = ((ours - theirs).abs().max() / ours.abs().max()).item()
    if differ or not difference < ROUNDING:
        what = f"{differ[0]} differs" if differ else f"hidden states differ by {difference:.2g} of the largest"
        raise CheckpointError(f"{folder} does not reproduce the model: {what}")
