"""Probe the frozen features of an encoder with logistic regression.

The task needs no labels: decide whether a word of a sentence was replaced by a random word of the text.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

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
    return float(_fit(*_features(model, task.train)).score(*_features(model, task.test)))


def _features(model: Pretrained, examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray]:
    """Return the features (N, H) of each word's first piece, and the labels (N)."""
    states = model.encode([example.text for example in examples], pooling="tokens")
    before = model.tokenizer.encode([" ".join(example.text.split()[: example.place]) for example in examples])
    found = [of_text[min(len(pieces.ids), len(of_text) - 1)] for of_text, pieces in zip(states, before, strict=True)]
    return np.stack(found).astype(np.float64), np.array([example.exchanged for example in examples])


def _fit(features: np.ndarray, labels: np.ndarray) -> Any:
    """Standardize the features and minimize the mean logistic loss with a penalty on all weights, even the bias."""
    regression = LogisticRegression(C=0.5 / (PENALTY * len(labels)), solver="liblinear", tol=1e-8)
    return make_pipeline(StandardScaler(), regression).fit(features, labels)
