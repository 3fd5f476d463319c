"""Compare two models of the ledger task by task: by how much one is ahead, with Welch's interval of 95 %."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from entries import TASKS, points, table
from scipy import stats

CONFIDENCE = 0.95
Pair = tuple[Sequence[float], Sequence[float]]  # a task's scores of the one model and of the other, a seed each


def differences_table(scores: Path, first: int, second: int) -> str:
    """Give both medians of each task, at every rate that was tried, and the difference at the better rates.

    With several seeds it is the difference of the means; the last line is its mean over the tasks that have several.
    """
    found = points(scores.parent)
    one, other = found[first], found[second]
    tasks = [task for task in TASKS if task in one.scores and task in other.scores]
    medians = {task: [*one.medians(task).items(), *other.medians(task).items()] for task in tasks}
    pairs = {task: (one.seeds(task), other.seeds(task)) for task in tasks}
    repeated = [pair for pair in pairs.values() if min(map(len, pair)) > 1]
    heads = [f"{point.model}{rate}" for point in (one, other) for rate in point.medians(tasks[0])]
    rows = [["task", *heads, "difference (95 % interval)"]]
    rows += [[TASKS[task], *(f"{median:.1f}" for _, median in medians[task]), _said([pairs[task]])] for task in tasks]
    if repeated:
        rows.append([f"mean of the {len(repeated)} with several seeds", *("" for _ in heads), _said(repeated)])
    return table(rows)


def difference(pairs: Sequence[Pair]) -> tuple[float, float | None]:
    """Give the difference of means, averaged over the pairs, and half of its interval; None where one seed is all."""
    found = statistics.fmean(statistics.fmean(one) - statistics.fmean(other) for one, other in pairs)
    samples = [sample for pair in pairs for sample in pair]
    if min(map(len, samples)) < 2:
        return found, None
    errors = [statistics.variance(sample) / len(sample) for sample in samples]  # squared, of each mean
    total = sum(errors)
    if not total:
        return found, 0.0
    freedom = total**2 / sum(error**2 / (len(sample) - 1) for error, sample in zip(errors, samples, strict=True))
    return found, float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(total) / len(pairs)


def _said(pairs: Sequence[Pair]) -> str:
    found, half = difference(pairs)
    return f"{found:+.1f}" + ("" if half is None else f" ({found - half:.1f} – {found + half:.1f})")
