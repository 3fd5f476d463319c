"""Tasks that map one text or a pair of texts to a class, several labels or a value."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from electra.config.finetune import FinetuneConfig
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.body import Body
from electra.model.heads import Head, find_head
from electra.model.networks import TaskNetwork
from electra.tasks.base import Batch, Feature, Notes, Output, Prediction, Served, Task, mean_where
from electra.tasks.shown import Block
from electra.tasks.texts.head import ClassificationHead
from electra.tasks.texts.labels import Classes, Labels
from electra.tasks.texts.pictures import MOST_CLASSES, calibration, confusion


class TextExample(NamedTuple):
    """One or two texts, and their label if it is known."""

    texts: tuple[str, ...]
    label: Any = None  # in the form of the task's `Labels`
    id: str | int | None = None  # identifier in the data
    group: str = ""  # part of the split, if parts are scored separately


class TextTask(Task[TextExample, Feature[list[float]], Head]):
    """A task on texts, independent of their files and the kind of labels."""

    pooled = True

    def __init__(self, config: FinetuneConfig, kind: Labels[Any]) -> None:
        self.kind, self._paper_head = kind, config.head == "paper"
        self.metric, self.labels, self.problem = kind.metric, kind.names, kind.problem
        wanted = config.double_unordered
        self._double = self.defaults.double_unordered if wanted is None else wanted

    def example(self, texts: Sequence[str]) -> TextExample:
        return TextExample(tuple(texts))

    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        return self.kind.show(prediction)

    def features(
        self, examples: Sequence[TextExample], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[Feature[list[float]]]:
        """Frame the texts as [CLS] A [SEP] (B [SEP]); unordered pairs are trained in both orders."""
        encodings = iter(tokenizer.encode([text for example in examples for text in example.texts]))
        features = []
        for number, example in enumerate(examples):
            pieces = [next(encodings).ids for _ in example.texts]
            notes.add("truncated inputs", shorten(pieces, max_length - 1 - len(pieces)))
            target = None if example.label is None else self.kind.target(example.label)
            orders = [pieces, pieces[::-1]] if training and self._double and len(pieces) == 2 else [pieces]
            features += [Feature(number, *frame(order, tokenizer), target) for order in orders]
        return features

    def is_labeled(self, example: TextExample) -> bool:
        return example.label is not None

    def head(self, encoder: Body) -> Head:
        make = ClassificationHead if self._paper_head else find_head(f"{encoder.family}ForSequenceClassification")
        head: Head = make(encoder.config, len(self.labels))
        return head

    def batch(self, features: Sequence[Feature[list[float]]], rows: int, length: int) -> Batch:
        known = [feature.target or [] for feature in features]
        targets = torch.zeros(rows, len(known[0]))
        targets[: len(known)] = torch.tensor(known)
        return {"targets": targets}

    def loss(self, head: Head, hidden: Tensor, batch: Batch) -> Tensor:
        return mean_where(self.kind.losses(head(hidden, batch["attention"]), batch["targets"]), batch["weights"])

    def change(self, head: Head, hidden: Tensor, moved: Tensor, batch: Batch) -> Tensor:
        before, after = (head(states, batch["attention"]) for states in (hidden, moved))
        return mean_where(self.kind.divergence(before, after), batch["weights"])

    def outputs(self, head: Head, hidden: Tensor, batch: Batch) -> Batch:
        return {"logits": head(hidden, batch["attention"])}

    def predictions(
        self, examples: Sequence[TextExample], features: Sequence[Feature[list[float]]], outputs: Sequence[Output]
    ) -> list[Prediction]:
        named = [{} if example.id is None else {"id": example.id} for example in examples]
        return [name | self.kind.read(output["logits"]) for name, output in zip(named, outputs, strict=True)]

    def score(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Score each group; the metrics of all but the first have the group as a suffix."""
        scores: dict[str, float] = {}
        for number, group in enumerate(dict.fromkeys(example.group for example in examples)):
            chosen = [pair for pair in zip(examples, predictions, strict=True) if pair[0].group == group]
            found = self.kind.score([example.label for example, _ in chosen], [guess for _, guess in chosen])
            scores |= {f"{name}_{group}" if number else name: value for name, value in found.items()}
        return scores

    def is_constant(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> bool:
        return len({example.label for example in examples}) > 1 and self.kind.is_constant(predictions)

    def pictures(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> dict[str, str]:
        if not isinstance(self.kind, Classes) or len(self.kind.names) > MOST_CLASSES:
            return {}
        truth, guess = [example.label for example in examples], [prediction["label"] for prediction in predictions]
        confidence = [max(prediction["probabilities"].values()) for prediction in predictions]
        right = [true == guessed for true, guessed in zip(truth, guess, strict=True)]
        matrix = confusion(self.kind.names, truth, guess)
        return {"confusion.svg": matrix, "calibration.svg": calibration(confidence, right)}


def serve(network: TaskNetwork) -> Served | None:
    """Use a classifier or a regression that another program fine-tuned on a table; its columns are not known."""
    if network.head.labeled != "texts":
        return None
    kinds = {"multi_label_classification": "multilabel", "regression": "regression"}
    columns = {"kind": kinds.get(network.problem or "", "classification"), "text": "text", "label": "label"}
    return Served("table", {"columns": columns, "labels": list(network.labels), "low": 0.0, "high": 1.0})


def shorten(pieces: list[list[int]], room: int) -> bool:
    """Cut tokens from the end of the longest text until all fit into `room`; return whether any were cut."""
    too_long = sum(map(len, pieces)) > room
    while sum(map(len, pieces)) > room:
        max(reversed(pieces), key=len).pop()  # the last one in case of a tie, as in BERT
    return too_long


def frame(pieces: Sequence[list[int]], tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return ids with [CLS] at the start and [SEP] after each text, and token types."""
    ids, types = [tokenizer.cls_id], [0]
    for number, part in enumerate(pieces):
        ids += [*part, tokenizer.sep_id]
        types += [number] * (len(part) + 1)
    return ids, types
