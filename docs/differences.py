"""Compare two models of the ledger task by task: differences of scores with Welch's 95 % confidence interval."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from entries import TASKS, points, table
from scipy import stats

CONFIDENCE = 0.95
Pair = tuple[Sequence[float], Sequence[float]]  # the scores of both models on a task, one per seed


def differences_table(scores: Path, first: int, second: int) -> str:
    """Return both medians of each task at every learning rate tried, and the difference at the better rates.

    The difference is that of the means over seeds; the last row averages it over the tasks with several seeds.
    """
    found = points(scores.parent)
    one, other = found[first], found[second]
    tasks = [task for task in TASKS if task in one.scores and task in other.scores]
    medians = {task: [*one.medians(task).items(), *other.medians(task).items()] for task in tasks}
    pairs = {task: (one.seeds(task), other.seeds(task)) for task in tasks}
    repeated = [pair for pair in pairs.values() if min(map(len, pair)) > 1]
    headers = [f"{point.model}{rate}" for point in (one, other) for rate in point.medians(tasks[0])]
    rows = [["task", *headers, "difference (95 % interval)"]]
    rows += [[TASKS[task], *(f"{median:.1f}" for _, median in medians[task]), _cell([pairs[task]])] for task in tasks]
    if repeated:
        rows.append([f"mean of tasks with several seeds ({len(repeated)})", *("" for _ in headers), _cell(repeated)])
    return table(rows)


def difference(pairs: Sequence[Pair]) -> tuple[float, float | None]:
    """Return the mean difference over the pairs and half the width of its interval (None with a single seed)."""
    found = statistics.fmean(statistics.fmean(one) - statistics.fmean(other) for one, other in pairs)
    samples = [sample for pair in pairs for sample in pair]
    return found, half_width(samples) / len(pairs) if min(map(len, samples)) > 1 else None


def half_width(samples: Sequence[Sequence[float]]) -> float:
    """Return half the width of the interval of the sum of the samples' means."""
    errors = [statistics.variance(sample) / len(sample) for sample in samples]  # squared standard error of each mean
    total = sum(errors)
    if not total:
        return 0.0
    freedom = total**2 / sum(error**2 / (len(sample) - 1) for error, sample in zip(errors, samples, strict=True))
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(total)


def _cell(pairs: Sequence[Pair]) -> str:
    found, half = difference(pairs)
    return f"{found:+.1f}" + ("" if half is None else f" ({found - half:.1f} – {found + half:.1f})")
