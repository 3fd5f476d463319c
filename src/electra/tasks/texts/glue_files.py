"""Read GLUE from its tab-separated files, which have no quoting, or from the hub's dataset."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from electra.data.reading.records import START, read_rows, uses_quotes
from electra.data.reading.sources import is_dataset
from electra.errors import TaskError
from electra.tasks.base import HUB, Defaults, Notes, Split, contents, task_folder
from electra.tasks.texts.labels import Labels

COLA_HEADER = ["source", "label", "original", "sentence"]  # missing in its train and dev files
FOLDERS = {"AX": ("AX", "diagnostic", "MNLI")}  # folders to look in


class MissingFileError(TaskError):
    """A file of the task is missing."""


class Part(NamedTuple):
    """A part of a split, or a file that the user chose."""

    split: Split
    group: str  # "matched" or "mismatched" for MNLI, else empty
    file: str | None


class GlueRow(NamedTuple):
    """A row of a file."""

    where: str
    number: int  # index in a submission
    cells: dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """A task of GLUE. Labels are in the order of the hub's dataset."""

    folder: str  # with the official files
    columns: tuple[str, ...]  # one text or two
    label: str  # column
    labels: Labels[Any]
    hub: tuple[str, ...]  # config of the dataset, then its text columns
    defaults: Defaults = field(default_factory=Defaults)


def read_part(data: str | None, part: Part, task: Benchmark, notes: Notes) -> Iterator[GlueRow]:
    """Read the rows of a part; a test split needs no labels."""
    name, hub_name = ("_".join(filter(None, (split, part.group))) for split in (part.split, HUB[part.split]))
    on_hub = data is not None and is_dataset(data)
    if on_hub and part.file is None:
        return _read_hub(f"{data}:{task.hub[0]}:{hub_name}", task)
    folder = Path() if on_hub else task_folder(data, [*FOLDERS.get(task.folder, [task.folder]), task.hub[0]])
    if part.file is None and (packed := sorted(folder.glob(f"{hub_name}*.parquet"))):
        return _read_hub_files(packed, task)
    name = "diagnostic" if task.folder == "AX" else name
    path = folder / (part.file or f"{name}.tsv")
    if not path.is_file():
        hint = f"; name another with {part.split}_file=FILE" if any(folder.glob("*.tsv")) else ""
        raise MissingFileError(f"no {path.name} in {folder}; found {contents(folder)}{hint}")
    needed = task.columns if part.split == "test" else (*task.columns, task.label)
    return read_own(path, task, needed, notes)


def is_own(path: Path, task: Benchmark) -> bool:
    """Return whether a file has the benchmark's format rather than that of a user's table."""
    if path.suffix != ".tsv" or not path.is_file():
        return False
    first = _first_fields(path)
    if _without_header(first, task):
        return True
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        start = list(islice(_decoded(file, path), START))
    quoted = uses_quotes(start) and any('""' in line for line in start)  # GLUE's files have no quoting
    return set(task.columns) <= set(first) and not quoted


def read_own(path: Path, task: Benchmark, needed: tuple[str, ...], notes: Notes) -> Iterator[GlueRow]:
    """Read a file in the benchmark's format."""
    header = COLA_HEADER if _without_header(_first_fields(path), task) else None
    yield from _read_tsv(path, needed, header, notes)


def _first_fields(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        return next(_decoded(file, path), "").rstrip("\r\n").split("\t")


def _without_header(first: list[str], task: Benchmark) -> bool:
    """Return whether the header is missing, as in CoLA's train and dev files."""
    return task.folder == "CoLA" and len(first) == len(COLA_HEADER) and first[1] in task.labels.names


def _read_tsv(path: Path, needed: tuple[str, ...], header: list[str] | None, notes: Notes) -> Iterator[GlueRow]:
    """Read tab-separated fields without quoting; `header` is for files that have none."""
    count = 0
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        for line_number, line in enumerate(_decoded(file, path), 1):
            fields = line.rstrip("\r\n").split("\t")
            where = f"{path} line {line_number}"
            if header is None:
                header = fields
                if missing := [name for name in needed if name not in header]:
                    raise TaskError(f"{path} has no column {missing[0]!r}; found {', '.join(header)}")
            elif len(fields) > len(header):
                raise TaskError(
                    f"{where}: {len(fields)} fields, but the header has {len(header)}; "
                    f"GLUE's files have no quoting, so a field cannot contain a tab"
                )
            elif len(fields) < len(header):  # a few lines of QQP are broken in two
                notes.add("skipped, fields missing")
            else:
                cells = dict(zip(header, fields, strict=True))
                own = cells.get("index", cells.get("id", ""))
                yield GlueRow(where, int(own) if own.isdigit() else count, cells)
                count += 1


def _decoded(lines: Iterable[str], path: Path) -> Iterator[str]:
    try:
        yield from lines
    except UnicodeDecodeError as problem:
        byte = problem.object[problem.start]
        raise TaskError(f"{path} is not UTF-8 (byte 0x{byte:02x}); convert it with iconv") from None


def _read_hub_files(paths: list[Path], task: Benchmark) -> Iterator[GlueRow]:
    for path in paths:
        yield from _read_hub(str(path), task)


def _read_hub(name: str, task: Benchmark) -> Iterator[GlueRow]:
    """Read a dataset of the hub, which has its own names for text columns and numbers as labels."""
    for number, (where, record) in enumerate(read_rows(name)):
        absent = [column for column in task.hub[1:] if column not in record]
        if absent:
            raise TaskError(f"{where}: no column {absent[0]!r}; found {', '.join(record)}")
        cells = {ours: record[theirs] for ours, theirs in zip(task.columns, task.hub[1:], strict=True)}
        label = record.get("label", -1)
        if task.labels.problem == "regression":
            cells |= {} if label is None or label < 0 else {task.label: label}
        elif label is not None and label >= 0:  # -1 is a hidden label
            cells[task.label] = task.labels.names[label]
        yield GlueRow(where, record.get("idx", number), cells)
