"""Predict: stream examples in and predictions out, in the same order."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from electra.errors import DataError
from electra.recipes.evaluate import load_tuned
from electra.tasks.base import Notes, Prediction

BLOCK = 1024  # examples in memory at a time


def predict(
    run: str | Path, source: str | Path, overrides: Iterable[str] = (), notes: Notes | None = None
) -> Iterator[Prediction]:
    """Yield a prediction for each example of a file or of stdin (`-`); `notes` counts truncated and skipped ones."""
    if Path(source).expanduser().is_dir():
        raise DataError(f"{source} is a folder; name a file to predict")
    tuned = load_tuned(run, overrides)
    counted = notes if notes is not None else Notes()
    examples = tuned.task.inputs(str(source), counted)
    while block := list(islice(examples, BLOCK)):
        yield from tuned.predict(block, counted)
