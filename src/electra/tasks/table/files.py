"""Read the splits of a user's table: one file, a folder with a file for each split, or a dataset of the hub."""

import base64
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from electra.config.finetune import FinetuneConfig
from electra.data.files import fingerprint
from electra.data.reading.records import Row, dataset_splits, read_rows
from electra.data.reading.sources import is_dataset
from electra.errors import TaskError
from electra.tasks.base import HUB, Known, Notes, Split, contents
from electra.tasks.table.detect import column_names

ReadRows = Callable[[str], Iterable[Row]]  # reads a file
STEMS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("dev", "valid", "validation", "val"),
    "test": ("test",),
}
ENDINGS = (".csv", ".tsv", ".jsonl", ".ndjson", ".json", ".parquet")
SHORT = 4  # bytes of a row's digest
HELD_OUT_SEED = 0  # not the run's seed: all seeds are scored on the same rows


class Table:
    """The rows of each split; without a dev file, a fixed part of the training rows is held out.

    On another file, a model is scored on all rows except those it was trained on. Rows are recognized by their texts,
    since a file may have been copied, moved or extended.
    """

    def __init__(
        self, config: FinetuneConfig, known: Known, read_file: ReadRows = read_rows, endings: Sequence[str] = ENDINGS
    ) -> None:
        self._data, self._file, self._fraction = config.data, config.file, config.table.dev_fraction
        self._read_file, self._endings = read_file, endings
        self.texts: Sequence[str] = ()  # columns that identify a row
        self._rows: str | None = known.get("rows")  # fingerprint of the rows of the training file
        self._learned = base64.b64decode(known.get("learned_texts", ""))  # short digests of the rows trained on
        self._names: Sequence[str] = ()  # columns of the training file that is learned

    def learn(self, rows: Sequence[Row]) -> None:
        """Remember the rows of the training file that a model is trained on."""
        held: Collection[bytes] = () if self.find("dev") else self._held_out(rows)
        self._rows, self._names = _fingerprint(rows), column_names(rows, {})
        learned = (self._short(row) for row in rows if self._spelled(row) not in held)
        self._learned = b"".join(dict.fromkeys(learned))

    def describe(self) -> dict[str, Any]:
        """Return what a stored model needs to recognize its training rows."""
        return {"rows": self._rows, "learned_texts": base64.b64encode(self._learned).decode()}

    def unused(self, *used: str | None) -> list[str]:
        """Return a line that names the other columns of the training file, if there are any."""
        others = [name for name in self._names if name and name not in used]  # pandas writes an index without a name
        return [f"not used: {', '.join(others)}"] if others else []

    def read(self, split: Split, notes: Notes) -> list[Row]:
        """Read the rows of a split from its file, or the held-out rows of the training file."""
        source = self.find(split)
        rows = self._read_all(source) if source else self.read_training_file()
        learned, others = self._split_rows(rows)
        is_training_file = _fingerprint(rows) == self._rows
        if split == "train" and is_training_file:
            return learned
        if source:
            notes.add("rows are also in the training data", len(learned))
            return rows
        if split == "test" and is_training_file:
            raise TaskError("no test file; set test_file=FILE, or add test.csv to the folder of train.csv")
        if not others:
            raise TaskError("the model was trained on every row of this table; set data or dev_file to other rows")
        if is_training_file:
            notes.add("rows are held out from the training file", len(others))
        else:
            notes.add("rows were trained on and are skipped", len(learned))
        return others

    def read_training_file(self) -> list[Row]:
        """Read all rows of the training file, including those held out: a label may occur in only one part."""
        if source := self.find("train"):
            return self._read_all(source)
        if self._data is None:
            raise TaskError("no table; set data=FILE (.csv, .tsv, .jsonl, .parquet), or data=FOLDER with train.csv")
        if is_dataset(self._data):
            raise TaskError(f"{self._data} has no split train; found {', '.join(dataset_splits(self._data))}")
        there = contents(Path(self._data).expanduser())
        raise TaskError(f"no train.csv, .tsv, .jsonl or .parquet in {self._data}; found {there}; set train_file=NAME")

    def find(self, split: Split) -> str | None:
        """Return the file or hub dataset of a split, or None."""
        named, data = self._file(split), self._data
        folder = Path(data).expanduser() if data else Path()
        if named:
            path = folder / named if (folder / named).is_file() else Path(named)
            if not path.is_file():
                raise TaskError(f"no file {named} here or in {folder} ({split}_file)")
            return str(path)
        if data is None:
            return None
        if folder.is_dir():
            return _find_in(folder, STEMS[split], self._endings)
        if not is_dataset(data):
            return data if split == "train" else None
        name = data if ":" in data else f"{data}:"
        return f"{name}:{HUB[split]}" if HUB[split] in dataset_splits(data) else None

    def _read_all(self, source: str) -> list[Row]:
        rows = list(self._read_file(source))
        if not rows:
            raise TaskError(f"{source} has no rows")
        return rows

    def _held_out(self, rows: Sequence[Row]) -> frozenset[bytes]:
        """Return the texts to hold out; all rows with the same text are held out together."""
        texts = list(dict.fromkeys(map(self._spelled, rows)))
        if len(texts) < 2:
            raise TaskError("the table has only 1 text, so none can be held out; set dev_file=FILE")
        count = min(max(1, round(len(texts) * self._fraction)), len(texts) - 1)
        drawn = np.random.default_rng(HELD_OUT_SEED).permutation(len(texts))[:count]
        return frozenset(texts[number] for number in drawn)

    def _split_rows(self, rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
        """Split rows into those that the model was trained on and the others."""
        short = {self._learned[start : start + SHORT] for start in range(0, len(self._learned), SHORT)}
        known = [self._short(row) in short for row in rows]
        others = [not found for found in known]
        return list(compress(rows, known)), list(compress(rows, others))

    def _short(self, row: Row) -> bytes:
        return hashlib.blake2b(self._spelled(row), digest_size=SHORT).digest()

    def _spelled(self, row: Row) -> bytes:
        return _json([str(row.cells.get(name)) for name in self.texts])


def _fingerprint(rows: Sequence[Row]) -> str:
    return fingerprint(_json(row.cells) + b"\n" for row in rows)


def _json(value: Any) -> bytes:
    return json.dumps(value, default=str).encode()


def _find_in(folder: Path, stems: Sequence[str], endings: Sequence[str]) -> str | None:
    """Return the file of a split: `train.csv`, or `mine_train.csv`, also with a version, as in SQuAD."""
    files = sorted(entry for entry in folder.iterdir() if entry.is_file())
    tables = [path for path in files if any(ending in path.name.lower() for ending in endings)]
    patterns = [rf"{begin}{stem}(-v[\d.]+)?\." for begin in ("", ".*[_-]") for stem in stems]
    found = (str(path) for pattern in patterns for path in tables if re.match(pattern, path.name.lower()))
    return next(found, None)
