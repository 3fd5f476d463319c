"""Minimal pairs: how often a model prefers the acceptable one of two sentences, without fine-tuning (BLiMP)."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from electra.errors import TaskError
from electra.model.pretrained import load
from electra.recipes.results import Evaluation
from electra.tasks.lines import read_inputs

BLIMP = "blimp"  # the name of the task
COLUMNS = ("sentence_good", "sentence_bad")
PHENOMENON = "linguistics_term"  # the column that groups pairs; without it, their file does


@dataclass(frozen=True)
class Pair:
    """Two sentences that differ in what makes one of them unacceptable."""

    good: str
    bad: str
    phenomenon: str


def read_pairs(data: str | Path) -> Iterator[Pair]:
    """Read the pairs of a file, or of all `.jsonl` files of a folder."""
    folder = Path(data).expanduser()
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else [folder]
    if not files:
        raise TaskError(f"no .jsonl file in {folder}; each line has {' and '.join(COLUMNS)}")
    for file in files:
        for where, cells in read_inputs(str(file), COLUMNS):
            good, bad = (cells[column] for column in COLUMNS)
            if not isinstance(good, str) or not isinstance(bad, str) or not good.strip() or not bad.strip():
                raise TaskError(f"{where}: {' and '.join(COLUMNS)} must be texts")
            yield Pair(good, bad, str(cells.get(PHENOMENON) or file.stem))


def compare_pairs(model: str | Path, data: str | None, device: str = "auto") -> Evaluation:
    """Compare the scores of each pair; a tie counts half. The accuracy is that of all pairs, then by phenomenon."""
    if data is None:
        raise TaskError("which pairs? set data=DIR, a folder with the files of BLiMP, or data=FILE")
    pairs = list(read_pairs(data))
    if not pairs:
        raise TaskError(f"no pairs in {data}; each line has {' and '.join(COLUMNS)}")
    scores = load(model, device).score([text for pair in pairs for text in (pair.good, pair.bad)]).reshape(-1, 2)
    right = defaultdict[str, list[float]](list)
    predictions = []
    for pair, (good, bad) in zip(pairs, scores.tolist(), strict=True):
        right[pair.phenomenon].append(1.0 if good > bad else 0.5 if good == bad else 0.0)
        predictions.append({"phenomenon": pair.phenomenon, "good": good, "bad": bad})
    every = [value for values in right.values() for value in values]
    named = {f"accuracy_{name}": sum(values) / len(values) for name, values in sorted(right.items())}
    metrics = {"accuracy": sum(every) / len(every), **named}
    return Evaluation(BLIMP, "test", data, metrics, {}, predictions, {})
