"""Three kinds of labels: one of several classes, any number of labels, a value."""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from electra.config.keys import did_you_mean
from electra.errors import TaskError
from electra.model.networks import Problem
from electra.tasks.base import Prediction
from electra.tasks.shown import Block, Headline, Scale, Shares

LISTED = 30  # labels that a message lists
LARGEST = 1e15  # value; squares of scaled ones fit in 32-bit floats
FLAT = 0.01  # share of the range; values that differ by less count as equal
Label = TypeVar("Label")  # the label of an example


def listed(names: Sequence[str]) -> str:
    """Join labels for a message, shortened if there are many; those that contain a comma are quoted."""
    return ", ".join(f'"{name}"' if "," in name else name for name in names[:LISTED]) + (
        " …" if len(names) > LISTED else ""
    )


class Labels(ABC, Generic[Label]):
    """A kind of labels: how they train the outputs, and how outputs become labels."""

    problem: Problem
    metric: str
    names: tuple[str, ...]  # one for each output

    @abstractmethod
    def parse(self, raw: Any, where: str) -> Label:
        """Convert a label of a file, or raise an error."""

    @abstractmethod
    def target(self, label: Label) -> list[float]:
        """Return the numbers that train the outputs."""

    @abstractmethod
    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the losses (B,) of logits (B, outputs)."""

    @abstractmethod
    def expected(self, logits: Tensor) -> Tensor:
        """Return the expected targets (B, outputs)."""

    def divergence(self, before: Tensor, after: Tensor) -> Tensor:
        """Return the symmetric Kullback-Leibler divergences (B,) of the distributions that logits stand for.

        In an exponential family it is the product of two differences: of the parameters and of what they expect.
        """
        before, after = before.float(), after.float()
        return ((self.expected(before) - self.expected(after)) * (before - after)).sum(1)

    @abstractmethod
    def read(self, logits: np.ndarray) -> Prediction:
        """Convert the logits (outputs,) of one example to a prediction."""

    @abstractmethod
    def show(self, prediction: Prediction) -> list[Block]:
        """Return what a form shows of a prediction."""

    @abstractmethod
    def is_constant(self, predictions: Sequence[Prediction]) -> bool:
        """Return whether all predictions are the same."""

    @abstractmethod
    def score(self, truth: Sequence[Label], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Return the metrics of predictions."""


class Classes(Labels[str]):
    """One of several classes; `positive` is the class whose F1 is reported, if any, else `macro` is a mean of F1s."""

    problem: Problem = "single_label_classification"

    def __init__(
        self, names: Sequence[str], metric: str = "accuracy", positive: str | None = None, macro: bool | None = None
    ) -> None:
        self.names, self.metric, self.positive = tuple(names), metric, positive
        self.macro = len(self.names) > 2 if macro is None else macro

    def parse(self, raw: Any, where: str) -> str:
        label = str(raw)
        if label not in self.names:
            is_word = re.search(r"[^\W\d]", label)  # similar numbers are not typos
            hint = did_you_mean(label, self.names) if is_word else ""
            raise TaskError(f"{where}: unknown label {label!r}; known: {listed(self.names)}{hint}")
        return label

    def target(self, label: str) -> list[float]:
        return [self.names.index(label)]

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(logits.float(), targets[:, 0].long(), reduction="none")

    def expected(self, logits: Tensor) -> Tensor:
        return logits.softmax(1)

    def read(self, logits: np.ndarray) -> Prediction:
        probabilities = torch.from_numpy(logits).double().softmax(0).tolist()
        chances = dict(zip(self.names, probabilities, strict=True))
        return {"label": self.names[int(logits.argmax())], "probabilities": chances}

    def show(self, prediction: Prediction) -> list[Block]:
        return [Headline(f"Label: {prediction['label']}"), Shares([*prediction["probabilities"].items()])]

    def is_constant(self, predictions: Sequence[Prediction]) -> bool:
        return len({prediction["label"] for prediction in predictions}) == 1

    def score(self, truth: Sequence[str], predictions: Sequence[Prediction]) -> dict[str, float]:
        from electra.tasks.texts import metrics  # imported here because it takes two seconds

        guess = [prediction["label"] for prediction in predictions]
        found = {"accuracy": metrics.accuracy(truth, guess)}
        if self.metric == "matthews":
            found["matthews"] = metrics.matthews(truth, guess)
        if self.positive is not None:
            found["f1"] = metrics.f1(truth, guess, self.positive)
        elif self.macro:
            found["macro_f1"] = metrics.macro_f1(truth, guess)
        return found


class LabelSets(Labels[tuple[str, ...]]):
    """Any number of labels per example."""

    problem: Problem = "multi_label_classification"
    metric = "micro_f1"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)

    def parse(self, raw: Any, where: str) -> tuple[str, ...]:
        found = set(map(str, raw))
        if unknown := sorted(found - set(self.names)):
            hint = did_you_mean(unknown[0], self.names)
            raise TaskError(f"{where}: unknown label {unknown[0]!r}; known: {listed(self.names)}{hint}")
        return tuple(name for name in self.names if name in found)

    def target(self, label: Sequence[str]) -> list[float]:
        return [float(name in label) for name in self.names]

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(logits.float(), targets, reduction="none").mean(1)

    def expected(self, logits: Tensor) -> Tensor:
        return logits.sigmoid()

    def divergence(self, before: Tensor, after: Tensor) -> Tensor:
        return super().divergence(before, after) / len(self.names)  # the mean over labels, as the loss

    def read(self, logits: np.ndarray) -> Prediction:
        probabilities = torch.from_numpy(logits).double().sigmoid().tolist()
        chances = dict(zip(self.names, probabilities, strict=True))
        return {"labels": [name for name, chance in chances.items() if chance > 0.5], "probabilities": chances}

    def show(self, prediction: Prediction) -> list[Block]:
        found = ", ".join(prediction["labels"])
        return [
            Headline(f"Labels: {found}" if found else "None of the labels"),
            Shares([*prediction["probabilities"].items()]),
        ]

    def is_constant(self, predictions: Sequence[Prediction]) -> bool:
        return len({tuple(prediction["labels"]) for prediction in predictions}) == 1

    def score(self, truth: Sequence[Sequence[str]], predictions: Sequence[Prediction]) -> dict[str, float]:
        from electra.tasks.texts import metrics

        sides = ([self.target(label) for label in truth], [self.target(p["labels"]) for p in predictions])
        return metrics.label_sets(*(np.array(side, int) for side in sides))


class Value(Labels[float]):
    """A number, scaled for the network to (y - low) / (high - low)."""

    problem: Problem = "regression"

    def __init__(self, low: float, high: float, metric: str = "pearson", name: str = "value") -> None:
        if not low < high:
            raise TaskError(f"the lower bound of a value must be below the upper one; found {low:g} and {high:g}")
        self.low, self.high, self.metric, self.names = low, high, metric, (name,)

    def parse(self, raw: Any, where: str) -> float:
        try:
            number = float(raw)
        except (TypeError, ValueError, OverflowError):
            number = np.nan
        if not abs(number) <= LARGEST:
            raise TaskError(f"{where}: {raw!r} is not a number between {-LARGEST:g} and {LARGEST:g}")
        return number

    def target(self, label: float) -> list[float]:
        return [(label - self.low) / (self.high - self.low)]

    def losses(self, logits: Tensor, targets: Tensor) -> Tensor:
        return (logits[:, 0].float() - targets[:, 0]).square()

    def expected(self, logits: Tensor) -> Tensor:
        return logits

    def read(self, logits: np.ndarray) -> Prediction:
        return {"value": float(self.low + logits[0] * (self.high - self.low))}

    def show(self, prediction: Prediction) -> list[Block]:
        return [Headline(f"{prediction['value']:.2f}"), Scale(prediction["value"], self.low, self.high)]

    def is_constant(self, predictions: Sequence[Prediction]) -> bool:
        values: list[float] = [prediction["value"] for prediction in predictions]
        return max(values) - min(values) < FLAT * (self.high - self.low)

    def score(self, truth: Sequence[float], predictions: Sequence[Prediction]) -> dict[str, float]:
        from electra.tasks.texts import metrics

        guess = [prediction["value"] for prediction in predictions]
        found = {"pearson": metrics.pearson(truth, guess), "spearman": metrics.spearman(truth, guess)}
        return found | {"squared_error": metrics.squared_error(truth, guess)}
