"""Probe the frozen features of an encoder with logistic regression.

The task needs no labels: decide whether a word of a sentence was replaced by a random word of the text.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from electra.errors import DataError
from electra.model.pretrained import Pretrained

WORDS = 12  # per sentence, from its beginning: more would make the task easier, fewer harder
TEST_SHARE = 0.3  # of the documents
PENALTY = 1e-3  # on the squared weights


@dataclass(frozen=True)
class Example:
    """A word of a text, original or exchanged."""

    text: str
    place: int  # index of the word
    exchanged: bool


@dataclass(frozen=True)
class Task:
    """Examples to train and to test on; no document is in both."""

    train: list[Example]
    test: list[Example]


def odd_word_task(documents: Sequence[Sequence[str]]) -> Task:
    """Take two examples from the beginning of each paragraph: one original word, and the same word exchanged."""
    chance = random.Random(0)
    words = sorted({word for document in documents for paragraph in document for word in paragraph.split()})
    sides: tuple[list[Example], list[Example]] = ([], [])
    for number, document in enumerate(documents):
        side = sides[number % 10 < TEST_SHARE * 10]
        for paragraph in document:
            given = paragraph.split()[:WORDS]
            place, word = chance.randrange(len(given)), chance.choice(words)
            if word != given[place]:
                exchanged = [*given[:place], word, *given[place + 1 :]]
                side += [Example(" ".join(given), place, False), Example(" ".join(exchanged), place, True)]
    if not all(sides):
        raise DataError(f"{len(documents)} documents are too few for a probe: it needs some to train and some to test")
    return Task(*sides)


def probe(model: Pretrained, task: Task) -> float:
    """Fit a logistic regression to the words' features, and return its accuracy on unseen documents."""
    features, labels = _features(model, task.train)
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    weights = _fit((features - mean) / deviation, labels)
    features, labels = _features(model, task.test)
    scores = _scores((features - mean) / deviation, weights)
    return (scores.gt(0) == labels.bool()).double().mean().item()


def _features(model: Pretrained, examples: Sequence[Example]) -> tuple[Tensor, Tensor]:
    """Return the features (N, H) of each word's first piece, and the labels (N)."""
    states = model.encode([example.text for example in examples], pooling="tokens")
    before = model.tokenizer.encode([" ".join(example.text.split()[: example.place]) for example in examples])
    found = [of_text[min(len(pieces.ids), len(of_text) - 1)] for of_text, pieces in zip(states, before, strict=True)]
    labels = torch.tensor([example.exchanged for example in examples], dtype=torch.float64)
    return torch.from_numpy(np.stack(found).astype(np.float64)), labels


def _scores(features: Tensor, weights: Tensor) -> Tensor:
    return features @ weights[:-1] + weights[-1]


def _fit(features: Tensor, labels: Tensor) -> Tensor:
    """Minimize the penalized logistic loss, which is convex, so the initial weights do not matter."""
    weights = torch.zeros(features.size(1) + 1, dtype=features.dtype, requires_grad=True)
    optimizer = torch.optim.LBFGS([weights], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        value = F.binary_cross_entropy_with_logits(_scores(features, weights), labels)
        value = value + PENALTY * weights.square().sum()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return weights.detach()
