"""The probe: a fair task, and a regression that finds what there is to find."""

import numpy as np
import pytest
import torch

from electra.errors import DataError
from electra.recipes.probe import Task, _fit, odd_word_task, probe

DOCUMENTS = [[f"the {dish} was good and then the {cook} ate it on a mat"] for dish in "abcdefghij" for cook in "klm"]


class Reader:
    """An encoder whose features say whether the text begins with `the`, among noise."""

    def encode(self, texts):
        noise = np.random.default_rng(len(texts)).normal(size=(len(texts), 3))
        return np.column_stack([noise, [text.startswith("the") for text in texts]])


def test_the_kinds_differ_in_one_word():
    task = odd_word_task(DOCUMENTS)
    for (text, label), (exchanged, other) in zip(task.train[::2], task.train[1::2], strict=True):
        assert (label, other) == (False, True)
        assert sum(one != two for one, two in zip(text.split(), exchanged.split(), strict=True)) == 1


def test_no_document_is_on_both_sides():
    task = odd_word_task(DOCUMENTS)
    assert len(task.train) > 2 * len(task.test) > 0
    originals = [{text for text, label in side if not label} for side in (task.train, task.test)]
    assert not originals[0] & originals[1]


def test_the_task_is_the_same_each_time():
    assert odd_word_task(DOCUMENTS) == odd_word_task(DOCUMENTS)


def test_one_document_is_too_few():
    with pytest.raises(DataError, match="too few"):
        odd_word_task(DOCUMENTS[:1])


def test_a_feature_that_tells_is_found():
    examples = [("the cat", True), ("cat the", False)] * 20
    assert probe(Reader(), Task(examples, examples)) == 1.0


def test_features_of_noise_give_chance():
    examples = [("a cat", n % 2 == 0) for n in range(3000)]
    assert 0.45 < probe(Reader(), Task(examples[:2000], examples[2000:])) < 0.55


def test_the_fit_is_that_of_logistic_regression():
    """At the minimum of the penalised loss its gradient vanishes."""
    features = torch.randn(200, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    labels = (features[:, 0] + 0.5 * features[:, 1] > 0.2).double()
    weights = _fit(features, labels)
    ones = torch.cat([features, torch.ones(200, 1, dtype=torch.float64)], 1)
    gradient = ones.T @ ((ones @ weights).sigmoid() - labels) / 200 + 2e-3 * weights
    assert gradient.abs().max() < 1e-4
