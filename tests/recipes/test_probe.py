"""The probe: a fair task, and a regression that finds the informative features."""

from types import SimpleNamespace

import numpy as np
import pytest

from electra.errors import DataError
from electra.recipes.probe import Example, Task, _fit, odd_word_task, probe

DOCUMENTS = [[f"the {dish} was good and then the {cook} ate it on a mat"] for dish in "abcdefghij" for cook in "klm"]


class Reader:
    """An encoder whose features are noise, and whether a word is `odd`; each word is one piece."""

    tokenizer = SimpleNamespace(encode=lambda texts: [SimpleNamespace(ids=text.split()) for text in texts])

    def encode(self, texts, pooling):
        noise = np.random.default_rng(len(texts))
        return [
            np.column_stack([noise.normal(size=(len(text.split()), 3)), [word == "odd" for word in text.split()]])
            for text in texts
        ]


def test_original_and_exchanged_examples_differ_only_in_the_word_in_question():
    task = odd_word_task(DOCUMENTS)
    for one, other in zip(task.train[::2], task.train[1::2], strict=True):
        assert (one.exchanged, other.exchanged) == (False, True)
        pairs = zip(one.text.split(), other.text.split(), strict=True)
        assert [place for place, (left, right) in enumerate(pairs) if left != right] == [one.place] == [other.place]


def test_no_document_is_in_both_splits():
    task = odd_word_task(DOCUMENTS)
    assert len(task.train) > 2 * len(task.test) > 0
    originals = [{example.text for example in side if not example.exchanged} for side in (task.train, task.test)]
    assert not originals[0] & originals[1]


def test_the_task_is_the_same_each_time():
    assert odd_word_task(DOCUMENTS) == odd_word_task(DOCUMENTS)


def test_one_document_is_too_few():
    with pytest.raises(DataError, match="too few"):
        odd_word_task(DOCUMENTS[:1])


def test_an_informative_feature_is_found():
    examples = [Example("odd and odd", 2, True), Example("odd and even", 2, False)] * 20
    assert probe(Reader(), Task(examples, examples)) == 1.0


def test_noise_features_give_chance_accuracy():
    examples = [Example("one odd word", 2, n % 2 == 0) for n in range(3000)]
    assert 0.45 < probe(Reader(), Task(examples[:2000], examples[2000:])) < 0.55


def test_the_fit_is_a_logistic_regression():
    """At the minimum of the penalized loss its gradient vanishes."""
    features = np.random.default_rng(0).normal(size=(200, 3))
    labels = features[:, 0] + 0.5 * features[:, 1] > 0.2
    scaler, regression = _fit(features, labels)
    weights = np.append(regression.coef_, regression.intercept_)
    ones = np.column_stack([scaler.transform(features), np.ones(200)])
    gradient = ones.T @ (1 / (1 + np.exp(-ones @ weights)) - labels) / 200 + 2e-3 * weights
    assert np.abs(gradient).max() < 1e-4
