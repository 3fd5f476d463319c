"""Compare two models of the ledger task by task: differences of scores with Welch's 95 % confidence interval."""

import math
import statistics
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from entries import TASKS, points, table
from scipy import stats

CONFIDENCE = 0.95
Samples = Sequence[Sequence[float]]  # independent ones, whose means add up to a model's score


def differences_table(scores: Path, first: int, second: int) -> str:
    """Return both medians of each task at every learning rate tried, and the difference at the better rates.

    The difference is that of the means over seeds; the last row averages it over the tasks with several seeds. After
    one pre-training run of each model the interval is that of fine-tuning seeds, after several that of these runs.
    """
    found = points(scores.parent)
    one, other = found[first], found[second]
    tasks = [task for task in TASKS if task in one.scores and task in other.scores]
    tried = [(point, rate) for point in (one, other) for rate in dict.fromkeys(chain(*map(point.medians, tasks)))]
    repeated = [task for task in tasks if min(len(one.seeds(task)), len(other.seeds(task))) > 1]
    rows = [["task", *(f"{point.model}{rate}" for point, rate in tried), "difference (95 % interval)"]]
    for task in tasks:
        medians = (point.medians(task).get(rate) for point, rate in tried)
        cells = ("" if median is None else f"{median:.1f}" for median in medians)
        rows.append([TASKS[task], *cells, _cell(one.samples([task]), other.samples([task]))])
    if repeated:
        mean = _cell(one.samples(repeated), other.samples(repeated))
        rows.append([f"mean of tasks with several seeds ({len(repeated)})", *("" for _ in tried), mean])
    return table(rows)


def difference(one: Samples, other: Samples) -> tuple[float, float | None]:
    """Return the difference of two scores and half the width of its interval (None if a sample is a single number)."""
    found = sum(map(statistics.fmean, one)) - sum(map(statistics.fmean, other))
    samples = [*one, *other]
    return found, half_width(samples) if min(map(len, samples)) > 1 else None


def half_width(samples: Samples) -> float:
    """Return half the width of the interval of the sum of the samples' means."""
    errors = [statistics.variance(sample) / len(sample) for sample in samples]  # squared standard error of each mean
    total = sum(errors)
    if not total:
        return 0.0
    freedom = total**2 / sum(error**2 / (len(sample) - 1) for error, sample in zip(errors, samples, strict=True))
    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)) * math.sqrt(total)


def _cell(one: Samples, other: Samples) -> str:
    found, half = difference(one, other)
    return f"{found:+.1f}" + ("" if half is None else f" ({found - half:.1f} – {found + half:.1f})")
