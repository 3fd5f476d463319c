"""Predicting: examples in, one after the other, predictions out in the same order."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from electra.errors import DataError
from electra.recipes.evaluate import load_tuned
from electra.tasks.base import Notes, Prediction

BLOCK = 1024  # examples that are held in memory


def predict(
    run: str | Path, source: str | Path, overrides: Iterable[str] = (), notes: Notes | None = None
) -> Iterator[Prediction]:
    """Give a prediction for each example of a file or of standard input (`-`); `notes` counts cuts and skips."""
    if Path(source).expanduser().is_dir():
        raise DataError(f"{source} is a folder; name the file to predict")
    tuned = load_tuned(run, overrides)
    counted = notes if notes is not None else Notes()
    examples = tuned.task.inputs(str(source), counted)
    while block := list(islice(examples, BLOCK)):
        yield from tuned.predict(block, counted)
