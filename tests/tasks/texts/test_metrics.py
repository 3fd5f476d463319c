"""Our scores against independent statements of them."""

import itertools

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics as theirs

from electra.tasks.texts import metrics

RANDOM = [np.random.default_rng(seed).integers(0, classes, (2, 60)) for seed in range(10) for classes in (2, 3)]


@pytest.mark.parametrize("pair", RANDOM)
def test_classification_scores_are_their_formulas(pair):
    truth, guess = ([str(label) for label in side] for side in pair)
    assert metrics.accuracy(truth, guess) == pytest.approx(np.mean(pair[0] == pair[1]))
    hits = np.sum((pair[0] == 1) & (pair[1] == 1))
    f1 = 2 * hits / (np.sum(pair[0] == 1) + np.sum(pair[1] == 1))
    assert metrics.f1(truth, guess, "1") == pytest.approx(f1)
    assert metrics.macro_f1(truth, guess) == pytest.approx(theirs.f1_score(truth, guess, average="macro"))
    if len(set(truth)) == 2:  # of two classes Matthews's correlation is Pearson's
        assert metrics.matthews(truth, guess) == pytest.approx(np.corrcoef(pair)[0, 1])


def test_scores_of_all_small_cases_are_defined_and_agree_with_scikit_learn():
    for truth, guess in itertools.product(itertools.product("01", repeat=3), repeat=2):
        assert metrics.accuracy(truth, guess) == theirs.accuracy_score(truth, guess)
        assert metrics.f1(truth, guess, "1") == theirs.f1_score(truth, guess, pos_label="1", zero_division=0.0)
        constant = len(set(truth)) == 1 or len(set(guess)) == 1
        expected = 0.0 if constant else theirs.matthews_corrcoef(truth, guess)
        assert metrics.matthews(truth, guess) == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_correlations_are_scipys_with_ties_too(seed):
    source = np.random.default_rng(seed)
    truth, guess = source.integers(0, 6, 50).astype(float), source.normal(size=50).round(1)
    assert metrics.pearson(truth, guess) == pytest.approx(np.corrcoef(truth, guess)[0, 1])
    ranks = stats.rankdata(truth), stats.rankdata(guess)
    assert metrics.spearman(truth, guess) == pytest.approx(np.corrcoef(*ranks)[0, 1])
    assert metrics.squared_error(truth, guess) == pytest.approx(np.mean((truth - guess) ** 2))


@pytest.mark.parametrize("correlation", [metrics.pearson, metrics.spearman])
def test_a_constant_correlates_with_nothing(correlation):
    assert correlation([1.0, 2.0, 3.0], [2.0, 2.0, 2.0]) == 0.0
    assert correlation([1.0, 1.0], [0.5, 0.7]) == 0.0


def test_sets_of_labels_are_scored_by_decisions_labels_and_whole_sets():
    truth = np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])
    guess = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 0]])
    found = metrics.label_sets(truth, guess)
    assert found["micro_f1"] == pytest.approx(2 * 2 / (3 + 3))
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1 + 0) / 3)
    assert found["exact_match"] == pytest.approx(1 / 3)


@pytest.mark.parametrize(("guess", "f1"), [([0, 0, 0], 0), ([1, 0, 1], 2 / 3), ([1, 0, 0], 1)])
def test_a_single_label_has_the_f1_of_its_occurrences(guess, f1):
    found = metrics.label_sets(np.array([[1], [0], [0]]), np.array(guess)[:, None])
    assert (found["micro_f1"], found["macro_f1"]) == (pytest.approx(f1), pytest.approx(f1))


def test_sets_of_labels_have_the_f1_of_scikit_learn():
    truth, guess = np.random.default_rng(0).integers(0, 2, (2, 20, 5))
    truth[:, 4] = guess[:, 4] = 0  # neither occurs nor is predicted
    found = metrics.label_sets(truth, guess)
    for average in ("micro", "macro"):
        expected = theirs.f1_score(truth, guess, average=average, zero_division=0.0)
        assert found[f"{average}_f1"] == pytest.approx(expected)
