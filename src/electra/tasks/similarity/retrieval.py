"""Retrieval: which place the right passages have when all passages are sorted by similarity to a query.

Shapes: Q queries, P passages, H numbers in a vector.
"""

import math
from collections.abc import Sequence
from statistics import fmean

import numpy as np

BLOCK = 1024  # queries that are compared at a time
CUT = 10  # places that count


def find_ranks(
    queries: np.ndarray, passages: np.ndarray, right: Sequence[Sequence[int]], own: Sequence[int | None]
) -> list[list[int]]:
    """Return the places, from 1, of each query's right passages; those that are as similar come after wrong ones.

    `own` is the passage with the text of the query itself, if there is one; it has a place only where it is right.
    """
    found: list[list[int]] = []
    for start in range(0, len(queries), BLOCK):
        rows = slice(start, start + BLOCK)
        scores = queries[rows] @ passages.T  # (BLOCK, P)
        for row, wanted, itself in zip(scores, right[rows], own[rows], strict=True):
            if itself is not None and itself not in wanted:
                row[itself] = -np.inf
            others, best = np.delete(row, wanted), sorted(row[list(wanted)], reverse=True)
            found.append([place + int((others >= score).sum()) for place, score in enumerate(best, 1)])
    return found


def score_ranks(ranks: Sequence[Sequence[int]]) -> dict[str, float]:
    """Return the mean nDCG up to 10, recall at 1 and 10, and reciprocal rank of the first right passage up to 10."""
    gains = [1 / math.log2(place + 1) for place in range(1, CUT + 1)]
    return {
        "ndcg_10": fmean(
            sum(gains[place - 1] for place in places if place <= CUT) / sum(gains[: len(places)]) for places in ranks
        ),
        "recall_1": fmean(sum(place <= 1 for place in places) / len(places) for places in ranks),
        "recall_10": fmean(sum(place <= CUT for place in places) / len(places) for places in ranks),
        "mrr_10": fmean(1 / places[0] if places[0] <= CUT else 0.0 for places in ranks),
    }
