"""The interface between fine-tuning and its tasks.

Shapes: B rows, L tokens, H hidden size. A batch always has B rows; rows after the last feature are padding.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import numpy as np
from torch import Tensor

from electra.config.finetune import FinetuneConfig
from electra.data.reading.sources import is_dataset
from electra.data.storage import fetch_folder, inside, is_remote, list_files
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.model.body import Body
from electra.model.heads import Head
from electra.model.networks import Problem, TaskNetwork
from electra.model.packing import Packing
from electra.tasks.shown import Block, Field

Split = Literal["train", "dev", "test"]
Known = Mapping[str, Any]  # what `Task.describe` returned when the model was stored; empty before
HUB: dict[Split, str] = {"train": "train", "dev": "validation", "test": "test"}  # names of splits on the hub
Batch = dict[str, Tensor]  # ids, attention, types (B, L), weights (B,), 0 for padding, and the task's targets
Output = dict[str, np.ndarray]  # of one feature, for its prediction
Prediction = dict[str, Any]  # written as a line of JSON

PLACES, TEXTS = "packed_places", "packed_texts"  # of a batch that is packed: see `Packing`
MOST_NAMES = 12  # files that a message lists

Example = TypeVar("Example")
Target = TypeVar("Target")
HeadType = TypeVar("HeadType", bound=Head)


@dataclass(frozen=True)
class Feature(Generic[Target]):
    """An input of the encoder: one per sentence, several windows for a long context."""

    example: int  # index in the list of examples
    ids: list[int]
    types: list[int]
    target: Target | None = None  # None without a label; its type depends on the family


AnyFeature = TypeVar("AnyFeature", bound=Feature[Any])


class Defaults(NamedTuple):
    """Settings that follow the task; a config can override them."""

    epochs: float = 3.0
    max_length: int = 128
    double_unordered: bool = False  # train on both orders of a pair
    dropout: float | None = None  # follows pre-training
    modern_rate: float = 1.0  # multiple of the usual learning rate with the body modern
    modern_smoothness: float = 0.0  # smoothness with the body modern


@dataclass(frozen=True)
class Notes:
    """Counts of what was truncated, skipped or changed, by a short description."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, count: int = 1) -> None:
        """Count something, such as "truncated inputs"."""
        if count:
            self.counts[what] += count


class Task(ABC, Generic[Example, AnyFeature, HeadType]):
    """A task: files to features, hidden states to a loss, outputs to predictions and scores."""

    name: str
    metric: str  # the score that ranks seeds and settings; larger is better
    defaults: Defaults = Defaults()
    title: str = "Task"  # of its form
    labels: tuple[str, ...] = ()  # one for each output of the head; empty for heads with fixed outputs
    problem: Problem | None = None  # kind of a classification head
    pooled: bool = False  # whether its head reads one state for each text: the first, or with a modern body the mean
    group: int = 1  # consecutive features that a batch keeps together, so that a loss can compare them

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The texts of an example, as a form asks for them."""

    @abstractmethod
    def example(self, texts: Sequence[str]) -> Example:
        """Make an example without a label from the texts of a form."""

    @abstractmethod
    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        """Return what a form shows of the prediction for such texts."""

    def fits(self, network: TaskNetwork) -> bool:
        """Return whether the head of a stored network has the outputs that the task reads."""
        return self.labels == network.labels

    def describe(self) -> dict[str, Any]:
        """Return what a stored model needs besides the config, such as the labels of the training data."""
        return {}

    def detected(self) -> list[str]:
        """Return what was detected in the data and can be set by hand, one line each."""
        return []

    @abstractmethod
    def read(self, split: Split, notes: Notes) -> list[Example]:
        """Read a split, or raise a one-line error; skipped examples are noted."""

    @abstractmethod
    def inputs(self, source: str, notes: Notes) -> Iterator[Example]:
        """Read examples to predict one by one; labels are ignored, "-" is standard input, skipped ones are noted."""

    @abstractmethod
    def features(
        self, examples: Sequence[Example], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[AnyFeature]:
        """Turn examples into inputs of the encoder, in the order of the examples."""

    @abstractmethod
    def head(self, encoder: Body) -> HeadType:
        """Make the task's head for an encoder."""

    def recordable(self, batch: Batch) -> bool:
        """Return whether a CUDA graph can record a training step on a batch."""
        return True

    def states(self, encoder: Body, head: HeadType, batch: Batch) -> Tensor:
        """Return what `loss` and `outputs` are computed from: the hidden states (B, L, H)."""
        return encode(encoder, batch)

    @abstractmethod
    def batch(self, features: Sequence[AnyFeature], rows: int, length: int) -> Batch:
        """Return the targets of labeled features, padded to `rows` rows and `length` tokens."""

    @abstractmethod
    def loss(self, head: HeadType, hidden: Tensor, batch: Batch) -> Tensor:
        """Return the mean loss over rows that are not padding, given hidden states (B, L, H)."""

    def change(self, head: HeadType, hidden: Tensor, moved: Tensor, batch: Batch) -> Tensor:
        """Return the mean divergence of the predictions from two hidden states (B, L, H); for tasks on whole texts."""
        raise NotImplementedError

    @abstractmethod
    def outputs(self, head: HeadType, hidden: Tensor, batch: Batch) -> Batch:
        """Return what predictions need: tensors with one row per row of the batch."""

    @abstractmethod
    def predictions(
        self, examples: Sequence[Example], features: Sequence[AnyFeature], outputs: Sequence[Output]
    ) -> list[Prediction]:
        """Return one prediction per example, in order, from the outputs of each feature."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Compare predictions with the labels: metrics as fractions of 1, including `metric`."""

    def baseline(self, examples: Sequence[Example]) -> dict[str, Any]:
        """Return the accuracy on dev of the label that is best if it is always predicted; empty for other scores."""
        return {}

    def calibrate(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Return what a stored model learns from its predictions on dev, such as a threshold."""
        return {}

    def is_constant(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> bool:
        """Return whether all predictions are the same although the labels differ: nothing was learned."""
        return False

    def is_labeled(self, example: Example) -> bool:
        """Return whether the label of an example is known."""
        return True

    def files(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        """Return predictions in the official formats of the task: names and contents of files."""
        return {}

    def pictures(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        """Draw plots for labeled examples: names and contents of SVG files."""
        return {}


AnyTask = Task[Any, Any, Any]
MakeTask = Callable[[str, FinetuneConfig, Known], AnyTask]


class Served(NamedTuple):
    """How a network that another program fine-tuned is used."""

    task: str
    known: Known


class Family(NamedTuple):
    """What a folder of `electra.tasks` registers as `FAMILY`."""

    tasks: Collection[str]  # their names
    make: MakeTask
    serve: Callable[[TaskNetwork], Served | None]  # None for a network whose head the family does not know


def encode(encoder: Body, batch: Batch) -> Tensor:
    """Return the hidden states (B, L, H) of a batch, computed without padding if it is packed."""
    if PLACES in batch:
        return Packing(batch[PLACES], batch[TEXTS]).run(encoder, batch["ids"])
    hidden: Tensor = encoder(batch["ids"], batch["attention"], batch["types"])
    return hidden


def mean_where(losses: Tensor, weights: Tensor) -> Tensor:
    """Return the mean of the losses with weight 1, or 0 if there are none."""
    return (losses * weights).sum() / weights.sum().clamp(min=1)


def task_folder(data: str | Path | None, names: Sequence[str]) -> Path:
    """Return the folder of a task: the first of `names` inside `data`, or `data` itself; from an address, a copy."""
    if not data:
        raise TaskError("no data: set data=DIR, the folder with the files of the task")
    if is_remote(data):
        found = _first(names, {name.partition("/")[0] for name in list_files(str(data)) if "/" in name})
        return fetch_folder(inside(data, found) if found else str(data), ["*"])
    folder = Path(data).expanduser()
    if not folder.is_dir():
        problem = f"{folder} is a file" if folder.is_file() else f"no folder {folder}"
        raise TaskError(f"{problem}; set data=DIR to the folder with the files of the task")
    return folder / (_first(names, {entry.name for entry in folder.iterdir() if entry.is_dir()}) or "")


def hub_sources(data: str | None, config: str, split: str, folders: Sequence[str]) -> tuple[list[str], Path]:
    """Return the sources of a split of a hub dataset, given by its name or Parquet files, and the folder of others."""
    if data is not None and is_dataset(data):
        return [f"{data}:{config}:{split}"], Path()
    folder = task_folder(data, folders)
    return [str(path) for path in sorted(folder.glob(f"{split}*.parquet"))], folder


def _first(names: Sequence[str], folders: Collection[str]) -> str | None:
    """Return the first of `names` that is a folder, spelled as the folder is; None if there is none."""
    lowered = {folder.lower(): folder for folder in sorted(folders, reverse=True)}
    return next((lowered[name.lower()] for name in names if name.lower() in lowered), None)


def contents(folder: Path) -> str:
    """List the contents of a folder for a message, shortened if necessary."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    return ", ".join(names[:MOST_NAMES] + (["…"] if len(names) > MOST_NAMES else [])) or "nothing"
