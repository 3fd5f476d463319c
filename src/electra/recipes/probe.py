"""A probe: what frozen features of an encoder know, read off by logistic regression.

The task needs no labels from outside: tell sentences from the same sentences with one word exchanged for another one of
the text, drawn at random.
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

WORDS = 12  # of a sentence's beginning: more would make the task easier, fewer harder
TEST_SHARE = 0.3  # of the documents
PENALTY = 1e-3  # on the squared weights


@dataclass(frozen=True)
class Task:
    """Texts with a label each, documents kept together on one side of the split."""

    train: list[tuple[str, bool]]
    test: list[tuple[str, bool]]


def odd_word_task(documents: Sequence[Sequence[str]]) -> Task:
    """Pair the beginning of each paragraph with a copy of it in which one word is exchanged."""
    chance = random.Random(0)
    words = sorted({word for document in documents for paragraph in document for word in paragraph.split()})
    sides: tuple[list[tuple[str, bool]], list[tuple[str, bool]]] = ([], [])
    for number, document in enumerate(documents):
        side = sides[number % 10 < TEST_SHARE * 10]
        for paragraph in document:
            given = paragraph.split()[:WORDS]
            place, word = chance.randrange(len(given)), chance.choice(words)
            if word != given[place]:
                exchanged = [*given[:place], word, *given[place + 1 :]]
                side += [(" ".join(given), False), (" ".join(exchanged), True)]
    if not all(sides):
        raise DataError(f"{len(documents)} documents are too few for a probe: it needs some to fit and some to test")
    return Task(*sides)


def probe(model: Pretrained, task: Task) -> float:
    """Fit logistic regression to mean-pooled features, and give its accuracy on the documents it has not seen."""
    features, labels = _features(model, task.train)
    mean, deviation = features.mean(0), features.std(0) + 1e-6
    weights = _fit((features - mean) / deviation, labels)
    features, labels = _features(model, task.test)
    scores = _scores((features - mean) / deviation, weights)
    return (scores.gt(0) == labels.bool()).double().mean().item()


def _features(model: Pretrained, examples: Sequence[tuple[str, bool]]) -> tuple[Tensor, Tensor]:
    texts, labels = zip(*examples, strict=True)
    vectors = np.asarray(model.encode(texts), dtype=np.float64)
    return torch.from_numpy(vectors), torch.tensor(labels, dtype=torch.float64)


def _scores(features: Tensor, weights: Tensor) -> Tensor:
    return features @ weights[:-1] + weights[-1]


def _fit(features: Tensor, labels: Tensor) -> Tensor:
    """Minimise the penalised logistic loss, which is convex: the start does not matter."""
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
