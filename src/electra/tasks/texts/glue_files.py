"""GLUE's rows, from its tab-separated files (which know no quotes) or from the dataset of the hub."""

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

COLA_HEADER = ["source", "label", "original", "sentence"]  # which its train and dev files leave out
FOLDERS = {"AX": ("AX", "diagnostic", "MNLI")}  # where a task's files may lie, beside a folder of its name


class MissingFileError(TaskError):
    """A file of the task is not in its folder."""


class Part(NamedTuple):
    """A part of a split, or a file that the user named instead."""

    split: Split
    group: str  # "matched" and "mismatched" for MNLI, else empty
    file: str | None


class GlueRow(NamedTuple):
    """An example as it stands in a file."""

    where: str
    number: int  # by which a submission knows it
    cells: dict[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """One of GLUE's tasks. Its labels are in the order in which the hub's dataset numbers them."""

    folder: str  # of the official files
    columns: tuple[str, ...]  # one text or two
    label: str  # column
    labels: Labels[Any]
    hub: tuple[str, ...]  # the dataset's config and its names of the text columns
    defaults: Defaults = field(default_factory=Defaults)


def read_part(data: str | None, part: Part, task: Benchmark, notes: Notes) -> Iterator[GlueRow]:
    """Read the rows of a part; the labels of a test are optional."""
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
        raise MissingFileError(f"no {path.name} in {folder}, which has {contents(folder)}{hint}")
    needed = task.columns if part.split == "test" else (*task.columns, task.label)
    return read_own(path, task, needed, notes)


def is_own(path: Path, task: Benchmark) -> bool:
    """Say whether a file is written as the benchmark's own are, not as a table of the user's."""
    if path.suffix != ".tsv" or not path.is_file():
        return False
    first = _first_fields(path)
    if _without_header(first, task):
        return True
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        start = list(islice(_decoded(file, path), START))
    quoted = uses_quotes(start) and any('""' in line for line in start)  # its own files mean quotes as they stand
    return set(task.columns) <= set(first) and not quoted


def read_own(path: Path, task: Benchmark, needed: tuple[str, ...], notes: Notes) -> Iterator[GlueRow]:
    """Read one of the benchmark's own files."""
    header = COLA_HEADER if _without_header(_first_fields(path), task) else None
    yield from _read_tsv(path, needed, header, notes)


def _first_fields(path: Path) -> list[str]:
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        return next(_decoded(file, path), "").rstrip("\r\n").split("\t")


def _without_header(first: list[str], task: Benchmark) -> bool:
    """CoLA's files for training and dev leave it out."""
    return task.folder == "CoLA" and len(first) == len(COLA_HEADER) and first[1] in task.labels.names


def _read_tsv(path: Path, needed: tuple[str, ...], header: list[str] | None, notes: Notes) -> Iterator[GlueRow]:
    """Read a file of fields with tabs between them and nothing else; `header` where the file leaves it out."""
    count = 0
    with path.open(encoding="utf-8-sig", newline="\n") as file:
        for line_number, line in enumerate(_decoded(file, path), 1):
            fields = line.rstrip("\r\n").split("\t")
            where = f"{path} line {line_number}"
            if header is None:
                header = fields
                if missing := [name for name in needed if name not in header]:
                    raise TaskError(f"{path} has no column {missing[0]!r}; its header has {', '.join(header)}")
            elif len(fields) > len(header):
                raise TaskError(
                    f"{where}: {len(fields)} fields under a header of {len(header)}; "
                    f"GLUE's files know no quotes, so that no field can hold a tab"
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
        raise TaskError(f"{path} is no UTF-8 (byte 0x{byte:02x}); convert it with iconv") from None


def _read_hub_files(paths: list[Path], task: Benchmark) -> Iterator[GlueRow]:
    for path in paths:
        yield from _read_hub(str(path), task)


def _read_hub(name: str, task: Benchmark) -> Iterator[GlueRow]:
    """Read a dataset of the hub, whose text columns have names of their own and whose labels are numbers."""
    for number, (where, record) in enumerate(read_rows(name)):
        absent = [column for column in task.hub[1:] if column not in record]
        if absent:
            raise TaskError(f"{where} has no column {absent[0]!r}; it has {', '.join(record)}")
        cells = {ours: record[theirs] for ours, theirs in zip(task.columns, task.hub[1:], strict=True)}
        label = record.get("label", -1)
        if task.labels.problem == "regression":
            cells |= {} if label is None or label < 0 else {task.label: label}
        elif label is not None and label >= 0:  # -1 stands for a hidden label
            cells[task.label] = task.labels.names[label]
        yield GlueRow(where, record.get("idx", number), cells)
