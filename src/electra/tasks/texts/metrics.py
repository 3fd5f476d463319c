"""Metrics of classification and regression from scikit-learn and scipy, also defined for constant inputs."""

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn import metrics

Values = Sequence[float] | np.ndarray


def accuracy(truth: Sequence[str], guess: Sequence[str]) -> float:
    """Return the accuracy."""
    return float(metrics.accuracy_score(truth, guess))


def f1(truth: Sequence[str], guess: Sequence[str], positive: str) -> float:
    """Return the F1 of one class; 0 if it neither occurs nor is predicted."""
    sides = ([label == positive for label in labels] for labels in (truth, guess))
    return float(metrics.f1_score(*sides, zero_division=0.0))


def macro_f1(truth: Sequence[str], guess: Sequence[str]) -> float:
    """Return the mean F1 over the classes that occur or are predicted."""
    return float(metrics.f1_score(truth, guess, average="macro", zero_division=0.0))


def matthews(truth: Sequence[str], guess: Sequence[str]) -> float:
    """Return the Matthews correlation; 0 if either side is constant."""
    if len(set(truth)) == 1 and set(truth) == set(guess):
        return 0.0
    return float(metrics.matthews_corrcoef(truth, guess))


def pearson(truth: Values, guess: Values) -> float:
    """Return the Pearson correlation; 0 if either side is constant."""
    return 0.0 if _constant(truth, guess) else float(stats.pearsonr(truth, guess).statistic)


def spearman(truth: Values, guess: Values) -> float:
    """Return the Spearman rank correlation; 0 if either side is constant."""
    return 0.0 if _constant(truth, guess) else float(stats.spearmanr(truth, guess).statistic)


def squared_error(truth: Values, guess: Values) -> float:
    """Return the mean squared error."""
    return float(metrics.mean_squared_error(truth, guess))


def label_sets(truth: np.ndarray, guess: np.ndarray) -> dict[str, float]:
    """Return the metrics of label sets, given as (examples, labels) arrays of 0 and 1.

    F1 is 2 · hits / (labels + predictions), and 0 for a label that neither occurs nor is predicted.
    """
    hits, counted = (truth * guess).sum(0), truth.sum(0) + guess.sum(0)
    return {
        "micro_f1": float(2 * hits.sum() / counted.sum().clip(min=1)),
        "macro_f1": float((2 * hits / counted.clip(min=1)).mean()),
        "exact_match": float((truth == guess).all(axis=1).mean()),
    }


def _constant(*sides: Values) -> bool:
    return any(np.ptp(np.asarray(values, float)) == 0 for values in sides)
