"""Hugging Face both ways: take a model in, give a model out, and prove that nothing changed on the way."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import torch

from electra.config.load import dump_config, load_config, preset_names
from electra.config.schema import (
    ElectraObjective,
    MaskedLMGenerator,
    MLMObjective,
    ModelConfig,
    PretrainConfig,
)
from electra.data.files import atomic_folder, write_json
from electra.data.reading.hub import locate
from electra.errors import CheckpointError, ConfigError
from electra.model.heads import ClassificationHead, QuestionAnsweringHead
from electra.model.huggingface import FILES, Network, encoder_of, read_network, write_network
from electra.model.networks import MaskedLM, TaskNetwork
from electra.model.pretrained import GENERATOR, TASK, Pretrained, find_folder, load
from electra.model.task_model import TaskModel, read_task, write_task_model
from electra.recipes.card import model_card, training_facts

DTYPES = {"float32": torch.float32, "bf16": torch.bfloat16}


def export(source: str | Path, out: str | Path, precision: Literal["float32", "bf16"] = "float32") -> Path:
    """Write a model as a plain Hugging Face folder, its generator at `out/generator`, and check what was written.

    In bf16 the files are half as large: weights are rounded first, and it is the rounded model that has to come back.
    """
    if precision not in DTYPES:
        raise ConfigError(f"no precision {precision!r}; say {' or '.join(DTYPES)}")
    dtype = DTYPES[precision]
    model = load(source, device="cpu")
    for network in filter(None, (model.network, model.generator)):
        network.to(dtype).float()
    with atomic_folder(Path(out)) as folder:
        place = find_folder(source)
        facts = training_facts(place.parent)
        if isinstance(model.network, TaskNetwork):
            _write_task_model(TaskModel(model.network, model.tokenizer, read_task(place)), folder, dtype, facts)
        else:
            write_model(model, folder, dtype, facts)
    return Path(out)


def import_model(source: str | Path, out: str | Path, generator: str | Path | None = None) -> Pretrained:
    """Take in a Hugging Face ELECTRA or BERT, with its generator where there is one, as a folder to train on from."""
    model = load(source, device="cpu")
    if generator:
        network = read_network(locate(generator, FILES, CheckpointError))
        if not isinstance(network, MaskedLM):
            raise CheckpointError(f"{generator} is no generator: it has no masked-LM head")
        model = Pretrained(model.network, model.tokenizer, network)
    with atomic_folder(Path(out)) as folder:
        write_model(model, folder / "model")
        if task := read_task(find_folder(source)):
            write_json(folder / "model" / TASK, task)
        (folder / "config.toml").write_text(dump_config(config_of(model)), encoding="utf-8")
    return model


def write_model(
    model: Pretrained, folder: Path, dtype: torch.dtype = torch.float32, facts: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Write networks, tokenizer and model card, read the weights back and compare the logits."""
    pad_id = model.tokenizer.pad_id
    write_network(model.network, folder, dtype, pad_id)
    model.tokenizer.save(folder)
    (folder / "README.md").write_text(model_card(model, dtype, facts), encoding="utf-8")
    _check(model.network, folder)
    if model.generator:
        write_network(model.generator, folder / GENERATOR, dtype, pad_id)
        model.tokenizer.save(folder / GENERATOR)
        _check(model.generator, folder / GENERATOR)


def _write_task_model(model: TaskModel, folder: Path, dtype: torch.dtype, facts: Mapping[str, str]) -> None:
    """Write a fine-tuned model so that `transformers` has a class for it, and check what was written."""
    network = model.network
    if isinstance(network.head, QuestionAnsweringHead):
        raise CheckpointError(
            "no class of transformers has the paper's question-answering head, whose end depends on the start; "
            "fine-tune with head=huggingface to export"
        )
    if isinstance(network.head, ClassificationHead):
        head = network.head.in_huggingface(network.encoder.config)
        network = TaskNetwork(network.encoder, head, network.labels, network.problem)
    write_task_model(replace(model, network=network), folder, dtype)
    (folder / "README.md").write_text(model_card(Pretrained(network, model.tokenizer), dtype, facts), encoding="utf-8")
    _check(network, folder)


def config_of(model: Pretrained) -> PretrainConfig:
    """Describe a model as a pre-training config, the rest as in the preset of the nearest size."""
    shape = model.encoder.config
    # What eases a start from nothing, as in `quick`, would only set back a model that has learnt already.
    presets = [
        preset
        for preset in map(load_config, preset_names())
        if preset.train.start_length is None and preset.train.start_batch_size is None
    ]
    nearest = min(presets, key=lambda preset: abs(preset.model.hidden_size - shape.hidden_size))
    usual = nearest.objective
    assert isinstance(usual, ElectraObjective)
    assert isinstance(usual.generator, MaskedLMGenerator)
    objective: ElectraObjective | MLMObjective
    if isinstance(model.network, MaskedLM):
        objective = MLMObjective(mask_fraction=usual.mask_fraction)
    else:
        generator = _describe_generator(shape, model) if model.generator else _usual_generator(shape)
        generator = generator.model_copy(update={"rate": usual.generator.rate})
        objective = usual.model_copy(update={"generator": generator})
    length = model.tokenizer.longest or nearest.train.length
    train = nearest.train.model_copy(update={"length": min(length, shape.max_length)})
    return PretrainConfig(model=shape, objective=objective, train=train)


def _usual_generator(shape: ModelConfig) -> MaskedLMGenerator:
    """Give a generator of about a quarter of the width, at a size that whole heads divide."""
    quarter = shape.hidden_size / 4
    size = quarter if quarter < 128 else 64 * round(quarter / 64)
    return MaskedLMGenerator(width=size / shape.hidden_size)


def _describe_generator(shape: ModelConfig, model: Pretrained) -> MaskedLMGenerator:
    assert model.generator is not None
    found = model.generator.encoder.config
    shared = torch.equal(model.generator.encoder.embeddings.words.weight, model.encoder.embeddings.words.weight)
    described = MaskedLMGenerator(
        width=found.hidden_size / shape.hidden_size,
        depth=found.layers / shape.layers,
        sharing="embeddings" if shared else "none",
    )
    derived = described.encoder(shape, own_embeddings=not shared)
    for key in ("embedding_size", "heads", "feed_forward_size", "vocab_size", "max_length"):
        if getattr(found, key) != getattr(derived, key):
            raise CheckpointError(
                f"the generator has {key} {getattr(found, key)}, but would be trained with "
                f"{getattr(derived, key)} beside this discriminator: import the discriminator alone"
            )
    return described


@torch.inference_mode()
def _check(network: Network, folder: Path) -> None:
    device = next(network.parameters()).device
    reread = read_network(folder).to(device)
    config = encoder_of(reread).config
    length = min(config.max_length, 64)
    ids = torch.randint(config.vocab_size, (2, length), generator=torch.Generator().manual_seed(0)).to(device)
    attention = torch.ones_like(ids)
    attention[1, length // 2 :] = 0
    outputs = []
    for candidate in (network.eval(), reread):
        if isinstance(candidate, MaskedLM):
            positions = torch.arange(length // 2, device=device).expand(2, -1)
            outputs.append(candidate(ids, attention, None, positions))
        elif isinstance(candidate, TaskNetwork) and isinstance(candidate.head, QuestionAnsweringHead):
            outputs.append(candidate.encoder(ids, attention))  # its head asks for candidates, too
        else:
            outputs.append(candidate(ids, attention))
    if not torch.equal(*outputs):
        difference = (outputs[0] - outputs[1]).abs().max().item()
        raise CheckpointError(f"{folder} does not reproduce the model: logits differ by {difference:.2g}")
