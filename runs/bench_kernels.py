"""Measure what each kernel is worth: the joint step with all of them, and with one exchanged for plain PyTorch.

python runs/bench_kernels.py [--shape SIZE:BATCHxLENGTH ...] [--seconds 2] [--device auto] [key=value ...]

First the rows of the table of operations that are faster here than plain, then the parts of the fused stack in use.
Both steps take turns. A table in CSV goes to standard output, one line when it is known; `difference` is how far the
gradients of the first update are apart, relative to their norm: about 1 where dropout draws other numbers. A row of the
table may take others along: without the kernel for logits they are float32, for which no kernel computes the loss.
"""

import argparse
import csv
import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from electra.config.schema import PretrainConfig
from electra.model import ops
from electra.model.precision import find_device
from electra.recipes.bench.step import config_of_step, random_ids
from electra.recipes.bench.timing import Row, measured, take_turns
from electra.recipes.speed import JointStep

SHAPES = ["modern-12x256:128x128", "modern-19x512:256x128", "modern-22x768:128x512", "small:128x128"]
COLUMNS = ["size", "batch", "length", "operation", "ms_with", "ms_without", "ratio", "ratio_low", "ratio_high"]
Change = tuple[dict[str, Any], str, Any]  # a table of names, such as a module's, the name, and its new value


class Switched:
    """A joint step during which some names have other values."""

    def __init__(self, config: PretrainConfig, ids: Tensor, changes: Sequence[Change]) -> None:
        self.changes = changes
        torch.manual_seed(0)
        self.step = JointStep(config, ids.device)
        self(ids)
        self.gradient = self.step.update.weights.gradient.clone()  # type: ignore[union-attr]

    def __call__(self, ids: Tensor) -> None:
        with exchanged(self.changes):
            self.step(ids)

    def difference(self, other: "Switched") -> float:
        """Return how far the gradients of the first update are apart, relative to the norm of these."""
        return float((self.gradient - other.gradient).norm() / self.gradient.norm())


@contextmanager
def exchanged(changes: Sequence[Change]) -> Iterator[None]:
    """Give names other values for a while."""
    with ExitStack() as undo:
        for table, name, value in changes:
            undo.callback(table.__setitem__, name, table[name])
            table[name] = value
        yield


def faster_operations(config: PretrainConfig, ids: Tensor) -> list[str]:
    """Return the rows of the table of operations that a step computes by something faster than plain PyTorch."""
    found, choose = set[str](), ops.choose

    def noting(operation: str, tensor: Tensor) -> ops.Implementation:
        chosen = choose(operation, tensor)
        if chosen != "plain":
            found.add(operation)
        return chosen

    step = Switched(config, ids, [(vars(ops), "choose", noting)])
    step.step.update.release()
    return [operation for operation in ops.FASTER if operation in found]


def switches(operations: Sequence[str]) -> dict[str, list[Change]]:
    """Return what is exchanged for each of these rows, and for each part of a fused stack among them."""
    faster: dict[str, Any] = vars(ops)["FASTER"]
    rows: dict[str, list[Change]] = {operation: [(faster, operation, "plain")] for operation in operations}
    if not any(operation.endswith("_stack") for operation in operations):
        return rows
    from bench_plain import PARTS  # needs Triton

    parts = (PARTS.get(operation, {}) for operation in operations)
    return {f"part: {name}": changes for found in parts for name, changes in found.items()} | rows


def measure(size: str, batch: int, length: int, config: PretrainConfig, device: torch.device, seconds: float) -> None:
    """Print a line for each operation; one that fails, for lack of memory perhaps, is reported and left out."""
    ids, table = random_ids(config, device), csv.writer(sys.stdout, lineterminator="\n")
    found = switches(faster_operations(config, ids))
    free(device)
    baseline = Switched(config, ids, [])
    for operation, changes in found.items():
        try:
            row, difference = compare(baseline, operation, changes, config, ids, seconds)
        except RuntimeError as problem:
            report(f"{size}: {operation} left out: {' '.join(str(problem).split())}")
            continue
        finally:
            free(device)
        with_, without = row
        times = with_.ms, without.ms, without.ratio, without.ratio_low, without.ratio_high
        table.writerow([size, batch, length, operation, *times, f"{difference:.1e}"])
        sys.stdout.flush()
    baseline.step.update.release()


def compare(
    baseline: Switched, operation: str, changes: Sequence[Change], config: PretrainConfig, ids: Tensor, seconds: float
) -> tuple[list[Row], float]:
    """Return the measurements of a step with and without an operation, and how far their gradients are apart."""
    without = Switched(config, ids, changes)
    try:
        variants = {"with": lambda: baseline, "without": lambda: without}
        trials = take_turns(variants, ids, ids.device, seconds, operation, report)
        batch, length = ids.shape
        rows = measured(trials, "pretrain", operation, batch, length, tokens=ids.numel(), peak_seconds=None)
        return list(rows), baseline.difference(without)
    finally:
        without.step.update.release()


def free(device: torch.device) -> None:
    """Return memory to the device: the next step needs it."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def report(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)


def main() -> None:
    """Print the table for all shapes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", help=f"[default: {' '.join(SHAPES)}]")
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--device", default="auto")
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    print(",".join([*COLUMNS, "difference"]))
    for shape in asked.shape or SHAPES:
        size, _, rows = shape.rpartition(":")
        batch, length = map(int, rows.split("x"))
        config = config_of_step(size, batch, length, asked.overrides)
        measure(size, batch, length, config, find_device(asked.device), asked.seconds)


if __name__ == "__main__":
    main()
