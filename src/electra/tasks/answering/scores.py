"""Exact match and F1 as SQuAD and MRQA define them, and the search for the threshold that 2.0 reports.

A prediction counts by its best match among the right answers. Scores are fractions of the questions.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

ARTICLES = re.compile(r"\b(a|an|the)\b")
NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


class Threshold(NamedTuple):
    """The best score that leaving out answers can reach, and the null odds above which they are left out."""

    score: float
    odds: float


def normalize(text: str) -> str:
    """Lower the case, drop punctuation and articles, and make every gap one space."""
    return " ".join(ARTICLES.sub(" ", text.lower().translate(NO_PUNCTUATION)).split())


def exact_match(prediction: str, answer: str) -> float:
    """Give 1 for texts that are equal once normalised, else 0."""
    return float(normalize(prediction) == normalize(answer))


def overlap_f1(prediction: str, answer: str) -> float:
    """Give the F1 of the words that the normalised texts share; 0 without any, as in SQuAD 1.1 and MRQA."""
    ours, theirs = normalize(prediction).split(), normalize(answer).split()
    shared = sum((Counter(ours) & Counter(theirs)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(ours), shared / len(theirs)
    return 2 * precision * recall / (precision + recall)


def overlap_f1_or_both_empty(prediction: str, answer: str) -> float:
    """Give the F1 of SQuAD 2.0, in which two texts without any word agree."""
    if not normalize(prediction) and not normalize(answer):
        return 1.0
    return overlap_f1(prediction, answer)


def score_answers(predictions: Sequence[str], answers: Sequence[Sequence[str]]) -> dict[str, float]:
    """Score predictions as SQuAD 1.1 and MRQA do; a question without a right answer counts as failed."""
    pairs = list(zip(predictions, answers, strict=True))
    return {
        "exact": _mean([max((exact_match(text, right) for right in rights), default=0.0) for text, rights in pairs]),
        "f1": _mean([max((overlap_f1(text, right) for right in rights), default=0.0) for text, rights in pairs]),
    }


@dataclass(frozen=True)
class Graded:
    """The best text of every question of SQuAD 2.0, graded as if it were given as the answer."""

    scores: dict[str, np.ndarray]  # by the metric's name
    odds: np.ndarray  # null odds: log odds of there being no answer
    answerable: np.ndarray
    given: np.ndarray  # whether there is a text at all

    def at(self, threshold: float) -> dict[str, float]:
        """Score the answers, of all questions and of both kinds; null odds above the threshold withhold them."""
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

        It starts from giving no answer, which is right where there is none, and gives one after the other in the order
        of their null odds: each adds its score, or takes away the point of a question that has no answer.
        """
        order, totals, best = self._search(metric)
        odds = float(self.odds[order[best - 1]]) if best else 0.0
        return Threshold(float(totals[best] / max(len(order), 1)), odds)

    def threshold(self, metric: str) -> float:
        """Give the best threshold for other questions: with some room, and below all odds where no answer is best."""
        _, _, answered = self._search(metric)
        return self.with_room(self.best(metric).odds) if answered else float(self.odds.min(initial=1.0) - 1)

    def _search(self, metric: str) -> tuple[np.ndarray, np.ndarray, int]:
        """Give the order of the null odds, the score after so many answers, and how many answers are best."""
        order = np.argsort(self.odds, kind="stable")
        gains = np.where(self.answerable, self.scores[metric], -self.given.astype(float))[order]
        totals = (~self.answerable).sum() + np.concatenate([[0.0], gains.cumsum()])
        return order, totals, int(totals.argmax())  # the first of equals, as the official search takes it

    def with_room(self, threshold: float) -> float:
        """Move a threshold half way to the next null odds, by one at most.

        The same answers are withheld, and no rounding error of the one at the threshold decides over it.
        """
        above = self.odds[self.odds > threshold].min(initial=threshold + 2)
        return float((threshold + above) / 2)


def grade(predictions: Sequence[str], odds: Sequence[float], answers: Sequence[Sequence[str]]) -> Graded:
    """Grade predictions by the rules of SQuAD 2.0; answers without a word count as none."""
    rights = [[text for text in texts if normalize(text)] or [""] for texts in answers]
    pairs = list(zip(predictions, rights, strict=True))
    measures = {"exact": exact_match, "f1": overlap_f1_or_both_empty}
    return Graded(
        scores={
            name: np.array([max(measure(text, right) for right in texts) for text, texts in pairs])
            for name, measure in measures.items()
        },
        odds=np.array(odds),
        answerable=np.array([texts != [""] for texts in rights]),
        given=np.array([bool(text) for text in predictions]),
    )


def _mean(values: Sequence[float] | np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else 0.0
