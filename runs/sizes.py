"""Fit how the held-out loss falls with parameters and tokens, and print the best size for a number of minutes.

python runs/sizes.py RUNS.csv [--minutes 5 --minutes 60]

RUNS.csv has a line for each complete run, with the columns size (a preset), tokens, loss and tokens/s. Prints the law
loss = floor + width / parameters^a + reading / tokens^b (Hoffmann et al. 2022), its error, the tokens per parameter
that a size reads until it overtakes the next smaller one, and a line of CSV for each number of minutes: the loss that
the law predicts for each size, the best size, and how many fits without one of the runs agree. Parameters are those
of the discriminator without embeddings: a vocabulary is looked up, not computed with.
"""

import argparse
import csv
import math
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy
from scipy.optimize import brentq, least_squares

from electra.config.load import load_config
from electra.recipes.flops import body_size

MINUTES = (5.0, 10.0, 20.0, 60.0)
STARTS = [(floor, slope) for floor in (0.5, 1.0, 1.5) for slope in (0.1, 0.3, 0.5)]  # of the search for the law
SEARCHED = (0.01, 1e5)  # minutes in which a size may overtake another
MILLION = 1e6


class Run(NamedTuple):
    """A complete pre-training run: what it cost and what it reached."""

    size: str
    tokens: float
    loss: float
    tokens_per_second: float


class Law(NamedTuple):
    """loss = floor + width / parameters^a + reading / tokens^b, with both in millions."""

    floor: float
    width: float
    a: float
    reading: float
    b: float

    def loss(self, parameters: float, tokens: float) -> float:
        """Return the predicted loss of a run."""
        narrow = self.width * math.pow(parameters / MILLION, -self.a)
        short = self.reading * math.pow(tokens / MILLION, -self.b)
        return self.floor + narrow + short


def read_runs(path: Path) -> list[Run]:
    """Read the runs from a table."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return [Run(row["size"], float(row["tokens"]), float(row["loss"]), float(row["tokens/s"])) for row in rows]


def fit(runs: Sequence[Run], parameters: dict[str, int]) -> Law:
    """Return the law with the smallest squared errors of the logarithm of the loss."""
    losses = numpy.log([run.loss for run in runs])

    def errors(law: numpy.ndarray) -> numpy.ndarray:
        found = Law(*numpy.exp(law))
        return numpy.log([found.loss(parameters[run.size], run.tokens) for run in runs]) - losses

    tries = [least_squares(errors, numpy.log([floor, 1.0, slope, 3.0, slope])) for floor, slope in STARTS]
    return Law(*map(float, numpy.exp(min(tries, key=lambda found: found.cost).x)))


def predicted(law: Law, minutes: float, parameters: Mapping[str, int], speeds: Mapping[str, float]) -> dict[str, float]:
    """Return the loss that each size reaches in a time, the best one first."""
    losses = {size: law.loss(parameters[size], 60 * minutes * speed) for size, speed in speeds.items()}
    return dict(sorted(losses.items(), key=lambda item: item[1]))


def overtaking(
    law: Law, smaller: str, larger: str, parameters: Mapping[str, int], speeds: Mapping[str, float]
) -> float:
    """Return the tokens per parameter of its own that a size reads until it is as good as a smaller one."""

    def lead(minutes: float) -> float:
        losses = predicted(law, math.exp(minutes), parameters, speeds)
        return losses[smaller] - losses[larger]

    try:
        minutes = math.exp(brentq(lead, *map(math.log, SEARCHED)))
    except ValueError:  # it is better, or worse, all the time
        return math.nan
    return 60 * minutes * speeds[larger] / parameters[larger]


def main(table: Path, minutes: Sequence[float]) -> None:
    """Print the law and the best sizes."""
    runs = read_runs(table)
    parameters = {run.size: body_size(load_config(run.size).model) for run in runs}
    speeds = {run.size: max(other.tokens_per_second for other in runs if other.size == run.size) for run in runs}
    law = fit(runs, parameters)
    others = [fit([*runs[:left_out], *runs[left_out + 1 :]], parameters) for left_out in range(len(runs))]
    off = max(abs(law.loss(parameters[run.size], run.tokens) - run.loss) for run in runs)
    constants = ", ".join(f"{name}={value:.4g}" for name, value in law._asdict().items())
    print(f"{constants}; off by at most {off:.3f}", file=sys.stderr)
    for smaller, larger in pairwise(sorted(parameters, key=parameters.__getitem__)):
        ratio = overtaking(law, smaller, larger, parameters, speeds)
        print(f"{larger} overtakes {smaller} at {ratio:.1f} tokens per parameter", file=sys.stderr)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["minutes", *parameters, "best", "also without one run"])
    for given in minutes:
        losses = predicted(law, given, parameters, speeds)
        best = next(iter(losses))
        alike = sum(next(iter(predicted(other, given, parameters, speeds))) == best for other in others)
        shown = (f"{losses[size]:.2f}" for size in parameters)
        rows.writerow([f"{given:g}", *shown, best, f"{alike} of {len(others)}"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="RUNS.csv", type=Path)
    parser.add_argument("--minutes", type=float, action="append", help="of training; repeatable")
    arguments = parser.parse_args()
    main(arguments.table, arguments.minutes or MINUTES)
