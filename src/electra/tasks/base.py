"""What the fine-tuning recipe asks of a task.

Shapes: B rows, L tokens, H hidden size. A batch always has B rows; those beyond its features are padding.
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
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.model.body import Body
from electra.model.heads import Head
from electra.model.networks import Problem, TaskNetwork
from electra.tasks.shown import Block, Field

Split = Literal["train", "dev", "test"]
Known = Mapping[str, Any]  # what `Task.describe` gave when a model was stored; empty before
HUB: dict[Split, str] = {"train": "train", "dev": "validation", "test": "test"}  # what datasets of the hub call them
Batch = dict[str, Tensor]  # ids, attention, types (B, L), weights (B,) that are 0 for padding, and the task's targets
Output = dict[str, np.ndarray]  # what prediction needs of one feature
Prediction = dict[str, Any]  # as it is written to a line of JSON

MOST_NAMES = 12  # of files in a message

Example = TypeVar("Example")
Target = TypeVar("Target")
HeadType = TypeVar("HeadType", bound=Head)


@dataclass(frozen=True)
class Feature(Generic[Target]):
    """What the encoder sees of an example: one for a sentence, several windows for a long context."""

    example: int  # its place in the list of examples
    ids: list[int]
    types: list[int]
    target: Target | None = None  # None without a label; what it is, is the task family's own matter


AnyFeature = TypeVar("AnyFeature", bound=Feature[Any])


@dataclass(frozen=True)
class Defaults:
    """What the paper sets by task; a config may say otherwise."""

    epochs: float = 3.0
    max_length: int = 128
    double_unordered: bool = False  # train on both orders of a pair


@dataclass(frozen=True)
class Notes:
    """What was truncated, skipped or changed on the way, counted by a short name, so that nothing gets lost."""

    counts: Counter[str] = field(default_factory=Counter)

    def add(self, what: str, count: int = 1) -> None:
        """Count something, such as "truncated"."""
        if count:
            self.counts[what] += count


class Task(ABC, Generic[Example, AnyFeature, HeadType]):
    """A task: from files to features, from hidden states to a loss, from outputs to predictions and scores."""

    name: str
    metric: str  # the one among the scores by which seeds and settings are ranked; larger is better
    defaults: Defaults = Defaults()
    labels: tuple[str, ...] = ()  # one for each output of the head; none for spans
    problem: Problem | None = None  # of a classification head: which of the three kinds
    group: int = 1  # consecutive features that a batch keeps together, so that a loss can compare them

    @property
    @abstractmethod
    def fields(self) -> tuple[Field, ...]:
        """The texts of an example, as a form asks for them."""

    @abstractmethod
    def example(self, texts: Sequence[str]) -> Example:
        """Make an example of such texts, without a label."""

    @abstractmethod
    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        """Return what a form shows of the prediction for such texts."""

    def fits(self, network: TaskNetwork) -> bool:
        """Return whether the head of a stored network has the outputs that the task reads."""
        return self.labels == network.labels

    def describe(self) -> dict[str, Any]:
        """Give what a stored model has to know beside the config, such as labels found in the training data."""
        return {}

    def detected(self) -> list[str]:
        """Say what was found out about the data and may be set otherwise, a line each."""
        return []

    @abstractmethod
    def read(self, split: Split, notes: Notes) -> list[Example]:
        """Read a split, or say in one line what is wrong with its file; what is skipped is noted."""

    @abstractmethod
    def inputs(self, source: str, notes: Notes) -> Iterator[Example]:
        """Read examples to predict, with or without labels, one after the other; "-" is standard input.

        What is skipped goes into the notes.
        """

    @abstractmethod
    def features(
        self, examples: Sequence[Example], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[AnyFeature]:
        """Turn examples into what the encoder sees, in the order of the examples."""

    @abstractmethod
    def head(self, encoder: Body) -> HeadType:
        """Make the task's head for an encoder."""

    @abstractmethod
    def batch(self, features: Sequence[AnyFeature], rows: int, length: int) -> Batch:
        """Give the targets of a batch of labelled features, padded to `rows` rows and `length` tokens."""

    @abstractmethod
    def loss(self, head: HeadType, hidden: Tensor, batch: Batch) -> Tensor:
        """Give the mean loss of the rows that count, of hidden states (B, L, H).

        Shapes are static and nothing is read back by the host: a CUDA graph may hold the step.
        """

    @abstractmethod
    def outputs(self, head: HeadType, hidden: Tensor, batch: Batch) -> Batch:
        """Give what prediction needs, each tensor with one row for each row of the batch."""

    @abstractmethod
    def predictions(
        self, examples: Sequence[Example], features: Sequence[AnyFeature], outputs: Sequence[Output]
    ) -> list[Prediction]:
        """Give one prediction for each example, in order, from the outputs of each feature."""

    @abstractmethod
    def score(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Hold predictions against the labels: metrics as fractions of one, the task's own `metric` among them."""

    def calibrate(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, Any]:
        """Give what a stored model has to know from its predictions on dev, such as a threshold."""
        return {}

    def is_constant(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> bool:
        """Say whether all examples get the same answer, though the right ones differ: nothing was learned then."""
        return False

    def is_labelled(self, example: Example) -> bool:
        """Say whether the right answer for an example is known."""
        return True

    def files(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        """Give the files in which the makers of the task want predictions: their names and content."""
        return {}

    def pictures(self, examples: Sequence[Example], predictions: Sequence[Prediction]) -> dict[str, str]:
        """Draw what the scores do not show, of labelled examples: names and content of SVG files."""
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


def mean_where(losses: Tensor, weights: Tensor) -> Tensor:
    """Give the mean of losses where the weights are one, and zero where none is."""
    return (losses * weights).sum() / weights.sum().clamp(min=1)


def task_folder(data: str | Path | None, names: Sequence[str]) -> Path:
    """Find the folder of a task: the first of its known names inside `data`, or `data` itself."""
    if not data:
        raise TaskError("the task needs its files: set data=DIR")
    folder = Path(data).expanduser()
    if not folder.is_dir():
        raise TaskError(f"no folder {folder}; data=DIR is the folder with the task's files")
    inside = {entry.name.lower(): entry for entry in sorted(folder.iterdir(), reverse=True) if entry.is_dir()}
    return next((inside[name.lower()] for name in names if name.lower() in inside), folder)


def task_file(folder: Path, names: Sequence[str]) -> Path:
    """Find the first of some files in a task's folder, or say what is there instead."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise TaskError(f"no {' or '.join(names)} in {folder}, which has {contents(folder)}")


def contents(folder: Path) -> str:
    """Say what a folder holds, as far as a message can."""
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    return ", ".join(names[:MOST_NAMES] + (["…"] if len(names) > MOST_NAMES else [])) or "nothing"
