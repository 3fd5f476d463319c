"""Preparing a fine-tuning: settings that follow task and model, features, number of updates."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeVar

import torch

from electra.config.bodies import ModelConfig, ModernModel
from electra.config.finetune import FinetuneConfig
from electra.config.keys import is_set
from electra.config.schema import TrainConfig
from electra.config.section import Section
from electra.data.files import fingerprint
from electra.errors import ConfigError, TaskError
from electra.model.bodies import build_body
from electra.model.networks import TaskNetwork
from electra.model.pretrained import Pretrained, find_folder, load, sentence_head
from electra.model.sentences import SentenceHead
from electra.model.task_model import read_task
from electra.tasks.base import AnyTask, Feature, Notes, Split
from electra.tasks.batches import batches_per_epoch
from electra.tasks.build import build_task
from electra.training.capture import nothing_collected

RATES = {256: 3e-4, 384: 2e-4, 512: 1.5e-4, 768: 1e-4, 1024: 5e-5}  # by width: the paper's, and 1 / width between
DECAYS = {12: 0.8, 24: 0.9}  # layer decays of the paper's models, by depth
SAMPLE = 10_000  # inputs that are checked for foreign text
SHARED = {"batch_size", "optimizer", "learning_rate", "weight_decay", "clip_norm", "precision"}  # with pre-training

AnySection = TypeVar("AnySection", bound=Section)


@dataclass(frozen=True)
class Examples:
    """A split and its features."""

    examples: Sequence[Any]
    features: list[Feature[Any]]
    notes: dict[str, int]


@dataclass(frozen=True)
class Tuning:
    """A fine-tuning before its first update: all settings decided, all examples read."""

    config: FinetuneConfig  # complete
    task: AnyTask
    start: Pretrained
    tuned_on: str | None  # the task that the start was already fine-tuned on
    train: Examples
    dev: Examples

    @property
    def batch_size(self) -> int:
        """The groups of inputs in one update: no more than there are, as padding costs the same time."""
        return min(self.config.batch_size, len(self.train.features) // self.task.group)

    @property
    def steps_per_epoch(self) -> int:
        """The updates of an epoch."""
        return batches_per_epoch(len(self.train.features), self.batch_size * self.task.group)

    @property
    def steps(self) -> int:
        """The updates of a seed."""
        assert self.config.epochs is not None
        return max(1, int(self.steps_per_epoch * self.config.epochs))

    @property
    def warmup_steps(self) -> int:
        """The updates until the full rate."""
        return int(self.steps * self.config.warmup_fraction)

    @property
    def training(self) -> TrainConfig:
        """The settings of the training loop."""
        length, shared = self.config.max_length, self.config.model_dump(include=SHARED)
        assert length is not None
        return TrainConfig(steps=self.steps, length=length, warmup_steps=self.warmup_steps, **shared)

    def fingerprints(self) -> dict[str, str]:
        """Return what identifies the weights and the examples, since their content may change under the same names."""
        weights = self.start.encoder.state_dict().values()
        return {
            "model": fingerprint(memoryview(weight.contiguous().numpy()).cast("B") for weight in weights),
            "training data": fingerprint(repr(example).encode() for example in self.train.examples),
            "dev data": fingerprint(repr(example).encode() for example in self.dev.examples),
        }

    def rate(self, height: int) -> float:
        """Return the multiple of the learning rate at a height: 0 for embeddings, then the blocks, last the head.

        The top block has `layer_decay`, each block below one power more, the embeddings one more than the lowest
        block. The original counts one power more for all of them, which its authors call a mistake.
        """
        assert self.config.layer_decay is not None
        depth = self.start.encoder.config.layers + 1 - height
        return self.config.layer_decay ** (depth + self.config.layer_decay_off_by_one) if depth else 1.0


def prepare(config: FinetuneConfig) -> Tuning:
    """Load the model, read the task's files and complete the config."""
    if config.model is None:
        raise ConfigError("no model: set model=MODEL to a run, a Hugging Face folder, a hub name or embedded")
    folder = find_folder(config.model)
    start = load(folder, device="cpu")
    config = with_head(config, start)
    task = build_task(config)
    tuned_on = None
    if isinstance(start.network, TaskNetwork):
        tuned_on = read_task(folder).get("name", "an unknown task")
    _check_protocol(config, tuned_on)
    completed = complete(config, task, start.encoder.config)
    assert completed.max_length is not None
    with torch.device("meta"):
        task.head(start.encoder)  # refuses settings that do not fit the model, before texts are read
    with nothing_collected():  # the collector would visit all of them again and again while they are made
        train, dev = (_read(split, task, start, completed.max_length) for split in ("train", "dev"))
    sample = train.features[:: len(train.features) // SAMPLE + 1]
    start.tokenizer.warn_of_foreign(chain.from_iterable(feature.ids for feature in sample))
    return Tuning(completed, task, start, tuned_on, train, dev)


def _read(split: Split, task: AnyTask, start: Pretrained, max_length: int) -> Examples:
    """Read a split and make its features."""
    notes = Notes()
    examples = task.read(split, notes)
    features = task.features(examples, start.tokenizer, max_length, notes, training=split == "train")
    if not features:
        why = "".join(f"; {count:,} {what}" for what, count in notes.counts.items())
        raise TaskError(f"no usable {split} data among {len(examples):,} examples{why}")
    check_types(features, start.encoder.config)
    return Examples(examples, features, dict(notes.counts))


def with_head(config: FinetuneConfig, start: Pretrained) -> FinetuneConfig:
    """Choose the head where the config does not: the paper's for its own body, and sentence vectors as they were."""
    usual: dict[str, Any] = {"head": "paper" if config.protocol == "paper" else start.encoder.usual_head}
    if config.task == "similarity":
        stored = sentence_head(start.network)
        vectors = stored or SentenceHead(start.encoder.config)
        prompts = {f"{role}_prompt": text for role, text in vectors.roles.items()}
        settings = _with_usual(config.similarity, {"pooling": vectors.pooling, **prompts})
        head = config.head if is_set(config, "head") else None  # a preset of other tasks may have one
        config = config.model_copy(update={"similarity": settings, "head": head})
        usual = {"max_length": start.window + 2 if stored else None}  # with [CLS] and [SEP]
    return _with_usual(config, usual)


def complete(config: FinetuneConfig, task: AnyTask, model: ModelConfig) -> FinetuneConfig:
    """Set what the config leaves to the task and to the size of the model."""
    check_length(config, model)
    check_pooling(config, model)
    if config.smoothness and task.problem is None:
        raise ConfigError(f"smoothness is for tasks on whole texts, not for {task.name}; drop it")
    modern = isinstance(model, ModernModel)
    rate = task.defaults.modern_rate if modern else 1.0
    pooling = "first" if config.head == "paper" else getattr(model, "pooling", "first")
    drops = max(model.dropout, model.attention_dropout) if config.dropout is None else config.dropout
    smooth = modern and not drops and config.protocol != "paper"
    usual = {
        "pooling": pooling if task.pooled else None,
        "max_length": min(task.defaults.max_length, model.max_length),
        "epochs": task.defaults.epochs,
        "double_unordered": task.defaults.double_unordered,
        "learning_rate": None if config.learning_rates else _nearest(RATES, model.hidden_size) * rate,
        "layer_decay": _nearest(DECAYS, model.layers),
        "dropout": task.defaults.dropout or _shared_dropout(model),
        "smoothness": task.defaults.modern_smoothness if smooth else 0.0,
        "seeds": len(config.seed_list),
    }
    return _with_usual(config, usual)


def _with_usual(section: AnySection, usual: dict[str, Any]) -> AnySection:
    """Set the keys of a section that are not set."""
    return section.model_copy(update={key: value for key, value in usual.items() if getattr(section, key) is None})


def _nearest(known: dict[int, float], size: int) -> float:
    """Return what is known for the size nearest to this one."""
    return known[min(known, key=lambda other: abs(other - size))]


def _shared_dropout(model: ModelConfig) -> float | None:
    """Return the dropout of pre-training, or None if hidden states and attention differ: each then keeps its own."""
    return model.dropout if model.dropout == model.attention_dropout else None


def check_types(features: Sequence[Feature[Any]], model: ModelConfig) -> None:
    """Refuse pairs of texts for a model with a single token type."""
    if not model.tells_apart(2) and any(any(feature.types) for feature in features):
        raise ConfigError("the examples are pairs of texts, but the model has only token_types=1")


def check_length(config: FinetuneConfig, model: ModelConfig) -> None:
    """Refuse inputs that are too long for a model."""
    if config.max_length and config.max_length > model.max_length:
        raise ConfigError(f"max_length={config.max_length} exceeds the model's maximum of {model.max_length} tokens")


def check_pooling(config: FinetuneConfig, model: ModelConfig) -> None:
    """Refuse the mean of all tokens for heads that read the first one."""
    if config.pooling != "mean":
        return
    if not isinstance(model, ModernModel):
        raise ConfigError(f"pooling=mean needs the body modern; with the body {model.body} heads read the first token")
    if config.head == "paper":
        raise ConfigError("pooling=mean needs head=huggingface; the paper's head reads the first token")


def new_network(tuning: Tuning) -> TaskNetwork:
    """Put a new head on a copy of the start's encoder, or on an untrained encoder of its shape."""
    chance, shape = tuning.config.dropout, tuning.start.encoder.config
    if chance is not None:
        shape = shape.model_copy(update={"dropout": chance, "attention_dropout": chance})
    if isinstance(shape, ModernModel) and tuning.config.pooling:
        shape = shape.model_copy(update={"pooling": tuning.config.pooling})
    encoder = build_body(shape)
    if tuning.config.start == "pretrained":
        encoder.load_state_dict(tuning.start.encoder.state_dict())
    task = tuning.task
    return TaskNetwork(encoder, task.head(encoder), task.labels, task.problem)


def _check_protocol(config: FinetuneConfig, tuned_on: str | None) -> None:
    if config.protocol == "mnli-init" and tuned_on != "mnli":
        found = f"tuned on {tuned_on}" if tuned_on else "not tuned yet"
        raise ConfigError(f"protocol = mnli-init starts from a model tuned on MNLI; {config.model} is {found}")
    if config.protocol == "paper" and tuned_on:
        raise ConfigError(f"protocol = paper starts from a pre-trained model; {config.model} is tuned on {tuned_on}")
