"""Exact match and F1 of SQuAD and MRQA, and the threshold search of SQuAD 2.0.

A prediction is compared with the accepted answer that matches best. Scores are means over questions.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

Measure = Callable[[str, str], float]  # of a prediction and an answer
ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Threshold(NamedTuple):
    """The best score that withholding answers can reach, and the null odds above which they are withheld."""

    score: float
    odds: float


def normalize(text: str) -> str:
    """Lower-case a text, drop punctuation and articles, and collapse whitespace."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """Return 1 if the normalized texts are equal, else 0."""
    return float(normalize(prediction) == normalize(answer))


def overlap_f1(prediction: str, answer: str) -> float:
    """Return the F1 of shared words of the normalized texts; 0 if there are none, as in SQuAD 1.1 and MRQA."""
    ours, theirs = normalize(prediction).split(), normalize(answer).split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(ours), shared / len(theirs)
    return 2 * precision * recall / (precision + recall)


def overlap_f1_or_both_empty(prediction: str, answer: str) -> float:
    """Return the F1 of SQuAD 2.0, where two empty texts agree."""
    return overlap_f1(prediction, answer) if normalize(prediction) or normalize(answer) else 1.0


def score_answers(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Score predictions as in SQuAD 1.1 and MRQA; a question without answers counts as wrong."""
    measures = {"exact": exact_match, "f1": overlap_f1}
    return {name: _mean(_best(measure, predictions, answers)) for name, measure in measures.items()}


def _best(measure: Measure, predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> np.ndarray:
    """Return the score of each prediction with the accepted answer that matches best; 0 if there is none."""
    pairs = zip(predictions, answers, strict=True)
    return np.array([max((measure(text, right) for right in rights), default=0.0) for text, rights in pairs])


@dataclass(frozen=True)
class Graded:
    """The scores of the best text for every question of SQuAD 2.0, as if no answer were withheld."""

    scores: dict[str, np.ndarray]  # by the metric's name
    odds: np.ndarray  # null odds: log odds that there is no answer
    answerable: np.ndarray
    given: np.ndarray  # whether there is a text

    def at(self, threshold: float) -> dict[str, float]:
        """Score all questions and both kinds; answers with null odds above the threshold are withheld."""
        withheld = self.odds > threshold
        found: dict[str, float] = {}
        for name, scores in self.scores.items():
            final = np.where(withheld, ~self.answerable, scores)
            found[name] = _mean(final)
            found[f"has_answer_{name}"] = _mean(final[self.answerable])
            found[f"no_answer_{name}"] = _mean(final[~self.answerable])
        return found

    def best(self, metric: str) -> Threshold:
        """Find the best threshold by the official search.

        It starts with all answers withheld, and gives them one by one in the order of their null odds: each adds its
        score, or loses the point of a question without an answer.
        """
        order, totals, best = self._search(metric)
        odds = float(self.odds[order[best - 1]]) if best else 0.0
        return Threshold(float(totals[best] / max(len(order), 1)), odds)

    def threshold(self, metric: str) -> float:
        """Return a threshold for new questions: the best one with a margin, or below all odds if none are answered."""
        _, _, answered = self._search(metric)
        return self.with_room(self.best(metric).odds) if answered else float(self.odds.min(initial=1.0) - 1)

    def _search(self, metric: str) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the order of null odds, the score after each number of answers, and the best number."""
        order = np.argsort(self.odds, kind="stable")
        gains = np.where(self.answerable, self.scores[metric], -self.given.astype(float))[order]
        totals = (~self.answerable).sum() + np.concatenate([[0.0], gains.cumsum()])
        return order, totals, int(totals.argmax())  # the first maximum, as in the official search

    def with_room(self, threshold: float) -> float:
        """Move a threshold halfway to the next null odds, by at most 1.

        The same answers are withheld, but rounding errors no longer matter.
        """
        above = self.odds[self.odds > threshold].min(initial=threshold + 2)
        return float((threshold + above) / 2)


def grade(predictions: Sequence[str], odds: Sequence[float], answers: Sequence[Sequence[str]]) -> Graded:
    """Score predictions by the rules of SQuAD 2.0; empty answers are ignored."""
    rights = [[text for text in texts if normalize(text)] or [""] for texts in answers]
    measures = {"exact": exact_match, "f1": overlap_f1_or_both_empty}
    scores = {name: _best(measure, predictions, rights) for name, measure in measures.items()}
    answerable = np.array([texts != [""] for texts in rights])
    return Graded(scores, np.array(odds), answerable, given=np.array([bool(text) for text in predictions]))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0
