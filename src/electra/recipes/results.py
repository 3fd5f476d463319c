"""Results: of one evaluation, and summaries of several seeds."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from electra.data.files import read_sealed, read_table
from electra.errors import CheckpointError
from electra.tasks.base import AnyTask, Prediction, Split

Results = dict[str, Any]  # the content of `results.json`
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Evaluation:
    """A model's predictions for a split, their scores, and what was truncated or skipped."""

    task: str
    split: Split
    source: str  # what was scored, in words: the split, or the file that was named instead
    metrics: dict[str, float]  # empty if the labels are unknown
    notes: dict[str, int]
    predictions: list[Prediction]
    files: dict[str, str]  # names and content: submissions to the benchmark, and plots of the errors
    baseline: dict[str, Any] = field(default_factory=dict)  # the most frequent label and its accuracy, if that compares


def scored(task: AnyTask, examples: Sequence[Any], predictions: Sequence[Prediction]) -> dict[str, float]:
    """Return the scores of predictions; the first is the one that ranks seeds and settings."""
    scores = task.score(examples, predictions)
    return dict(sorted(scores.items(), key=lambda score: score[0] != task.metric))


class _Seed(BaseModel):
    """The result of a seed."""

    seed: int
    metrics: dict[str, float]
    constant: bool = False
    seconds: float


class _Stored(BaseModel):
    """What a line about results is made of."""

    task: str
    metric: str
    protocol: str
    start: str
    seeds: list[_Seed]
    median: dict[str, float]
    std: dict[str, float]


def read_seed(path: Path) -> dict[str, Any]:
    """Read the `result.json` of a seed, which must be what was written."""
    found = read_sealed(path)
    if found is None:
        raise CheckpointError(f"{path} is damaged; remove {path.parent} to train this seed again")
    return found


def read_results(path: Path) -> Results:
    """Read the `results.json` of a fine-tuning."""
    return read_table(path, "the results of a fine-tuning", CheckpointError, _Stored)


def summarize_seeds(seeds: Sequence[dict[str, Any]]) -> Results:
    """Return median, mean, standard deviation and 95 % confidence interval of the mean for each metric.

    Deviation and interval are those of a sample (n - 1, Student's t); for one seed they are 0 and null.
    """
    values = {name: [seed["metrics"][name] for seed in seeds] for name in seeds[0]["metrics"]}
    return {
        "median": {name: statistics.median(found) for name, found in values.items()},
        "mean": {name: statistics.fmean(found) for name, found in values.items()},
        "std": {name: _deviation(found) for name, found in values.items()},
        "interval": {name: _interval(found) for name, found in values.items()},
    }


def chosen_seed(seeds: Sequence[dict[str, Any]], metric: str, keep: str) -> int:
    """Return the seed whose model is kept: the best or the median one; ties go to the first."""
    ranked = sorted(seeds, key=lambda seed: -seed["metrics"][metric])
    return int(ranked[0 if keep == "best" else len(ranked) // 2]["seed"])


def describe_scores(metrics: Mapping[str, float], baseline: Mapping[str, Any] | None) -> list[str]:
    """Return each score in words, the accuracy with that of always predicting the most frequent label."""
    label, accuracy = (baseline["label"], percent("accuracy", baseline["accuracy"])) if baseline else ("", "")
    always = {"accuracy": f' (always "{label}": {accuracy})'} if baseline else {}
    return [f"{name} {percent(name, value)}{always.get(name, '')}" for name, value in metrics.items()]


def describe(results: Results) -> str:
    """Return the scores and the protocol in one line."""
    metric, count = results["metric"], len(results["seeds"])
    scores = " · ".join(describe_scores(results["median"], results.get("baseline")))
    spread = f" (median of {count} seeds, {metric} ± {100 * results['std'][metric]:.2f})" if count > 1 else " (1 seed)"
    constant = constant_seeds(results)
    failed = f", {constant} of {count} seeds predict the same for every example" if constant else ""
    start = "" if results["start"] == "pretrained" else f", start {results['start']}"
    tried = rates_tried(results)
    rate = f", learning_rate {results['learning_rate']:g} (best of {tried})" if tried else ""
    return f"{results['task']}: {scores}{spread}{rate}, protocol {results['protocol']}{start}{failed}"


def rates_tried(results: Results) -> int:
    """Count the learning rates of a sweep, also those that were left out; 0 without a sweep."""
    return len(results.get("sweep", ())) + len(results.get("diverged", ()))


def swept(results: Results) -> list[tuple[str, str]]:
    """Return each learning rate that was tried, with its median score."""
    metric = results["metric"]
    scores = [(rate, percent(metric, medians[metric])) for rate, medians in results["sweep"].items()]
    return scores + [(rate, "diverged") for rate in results.get("diverged", ())]


def constant_seeds(results: Results) -> int:
    """Count the seeds that learned nothing: they predict the same for every dev example."""
    return sum(seed.get("constant", False) for seed in results["seeds"])


def percent(name: str, value: float) -> str:
    """Format a score in percent; errors are not scaled."""
    return f"{value:.4f}" if name.endswith("error") else f"{100 * value:.2f}"


def _deviation(values: Sequence[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def _interval(values: Sequence[float]) -> list[float] | None:
    if len(values) < 2:
        return None
    from scipy.special import stdtrit  # imports much that training does not need

    half = stdtrit(len(values) - 1, (1 + CONFIDENCE) / 2) * _deviation(values) / len(values) ** 0.5
    mean = statistics.fmean(values)
    return [float(mean - half), float(mean + half)]
