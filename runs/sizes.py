"""Fit how the held-out loss falls with parameters and tokens, and print the best size for a number of minutes.

python runs/sizes.py RUNS.csv [--minutes 5 --minutes 60]

RUNS.csv has a line for each complete run, with the columns size (a preset), tokens, loss and tokens/s. Prints the law
loss = floor + width / parameters^a + reading / tokens^b (Hoffmann et al. 2022), its error, and a line of CSV for each
number of minutes: the loss that it predicts for each size, and the best size. Parameters are those of the discriminator
without embeddings: a vocabulary is looked up, not computed with.
"""

import argparse
import csv
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy
from scipy.optimize import least_squares

from electra.config.load import load_config
from electra.recipes.flops import body_size

MINUTES = (5.0, 10.0, 20.0, 60.0)
STARTS = [(floor, slope) for floor in (0.5, 1.0, 1.5) for slope in (0.1, 0.3, 0.5)]  # of the search for the law
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


def main(table: Path, minutes: Sequence[float]) -> None:
    """Print the law and the best sizes."""
    runs = read_runs(table)
    parameters = {run.size: body_size(load_config(run.size).model) for run in runs}
    speeds = {run.size: max(other.tokens_per_second for other in runs if other.size == run.size) for run in runs}
    law = fit(runs, parameters)
    off = max(abs(law.loss(parameters[run.size], run.tokens) - run.loss) for run in runs)
    constants = ", ".join(f"{name}={value:.4g}" for name, value in law._asdict().items())
    print(f"{constants}; off by at most {off:.3f}", file=sys.stderr)
    rows = csv.writer(sys.stdout, lineterminator="\n")
    rows.writerow(["minutes", *parameters, "best"])
    for given in minutes:
        losses = {size: law.loss(parameters[size], 60 * given * speed) for size, speed in speeds.items()}
        rows.writerow([f"{given:g}", *(f"{loss:.2f}" for loss in losses.values()), min(losses, key=losses.__getitem__)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", metavar="RUNS.csv", type=Path)
    parser.add_argument("--minutes", type=float, action="append", help="of training; repeatable")
    arguments = parser.parse_args()
    main(arguments.table, arguments.minutes or MINUTES)
