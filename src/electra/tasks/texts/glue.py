"""The tasks of GLUE, from the benchmark's tab-separated files, which have no quoting, or from the hub's dataset."""

from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from electra.config.finetune import FinetuneConfig
from electra.data.reading.records import START, Row, read_rows, uses_quotes
from electra.errors import TaskError
from electra.tasks.base import HUB, Defaults, Known, Notes, Prediction, Split, contents, hub_sources
from electra.tasks.lines import read_inputs
from electra.tasks.shown import Field, column_label
from electra.tasks.texts.labels import Classes, Labels, Value
from electra.tasks.texts.task import TextExample, TextTask


class Benchmark(NamedTuple):
    """A task of GLUE. Labels are in the order of the hub's dataset."""

    folder: str  # with the official files
    columns: tuple[str, ...]  # one text or two
    label: str  # column
    labels: Labels[Any]
    hub: tuple[str, ...]  # config of the dataset, then its text columns
    defaults: Defaults = Defaults()


PAIR = ("sentence1", "sentence2")
YES_NO = Classes(("0", "1"))
YES_NO_F1 = Classes(("0", "1"), positive="1")
ENTAILMENT = Classes(("entailment", "not_entailment"))
THREE_WAY = Classes(("entailment", "neutral", "contradiction"))
SIMILARITY = Value(0, 5, metric="spearman")
TASKS = {
    "cola": Benchmark("CoLA", ("sentence",), "label", Classes(("0", "1"), metric="matthews"), ("cola", "sentence")),
    "sst-2": Benchmark("SST-2", ("sentence",), "label", YES_NO, ("sst2", "sentence")),
    "mrpc": Benchmark(
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        YES_NO_F1,
        ("mrpc", *PAIR),
        Defaults(double_unordered=True, modern_smoothness=1.0),
    ),
    "sts-b": Benchmark(
        "STS-B",
        PAIR,
        "score",
        SIMILARITY,
        ("stsb", *PAIR),
        Defaults(10.0, double_unordered=True, modern_rate=2.0, modern_smoothness=1.0),
    ),
    "qqp": Benchmark("QQP", ("question1", "question2"), "is_duplicate", YES_NO_F1, ("qqp", "question1", "question2")),
    "mnli": Benchmark("MNLI", PAIR, "gold_label", THREE_WAY, ("mnli", "premise", "hypothesis")),
    "qnli": Benchmark("QNLI", ("question", "sentence"), "label", ENTAILMENT, ("qnli", "question", "sentence")),
    "rte": Benchmark("RTE", PAIR, "label", ENTAILMENT, ("rte", *PAIR), Defaults(10.0, modern_smoothness=1.0)),
    "wnli": Benchmark("WNLI", PAIR, "label", YES_NO, ("wnli", *PAIR)),
    "ax": Benchmark("AX", PAIR, "gold_label", THREE_WAY, ("ax", "premise", "hypothesis")),
}
PARTS: dict[str, dict[Split, tuple[str, ...]]] = {  # of splits that are not a single file
    "mnli": {"dev": ("matched", "mismatched"), "test": ("matched", "mismatched")},
    "ax": {"train": (), "dev": ()},  # only a test split, for models fine-tuned on MNLI
}
SUBMISSION = {"matched": "MNLI-m", "mismatched": "MNLI-mm"}  # names of submission files that differ from the folder
COLA_HEADER = ["source", "label", "original", "sentence"]  # missing in its train and dev files
FOLDERS = {"AX": ("AX", "diagnostic", "MNLI")}  # folders to look in
Numbered = tuple[int, Row]  # index in a submission, and the row


class MissingFileError(TaskError):
    """A file of the task is missing."""


class GlueTask(TextTask):
    """A task of GLUE, from the official files or the hub's dataset (by name, or as a folder of Parquet files)."""

    def __init__(self, name: str, config: FinetuneConfig, known: Known) -> None:
        self.name, self.benchmark = name, TASKS[name]
        self.defaults = self.benchmark.defaults
        super().__init__(config, self.benchmark.labels)
        self._data, self._file = config.data, config.file

    @property
    def fields(self) -> tuple[Field, ...]:
        """The texts under their names in the hub's dataset: the files have columns such as #1 String."""
        return tuple(Field(column_label(name)) for name in self.benchmark.hub[1:])

    def read(self, split: Split, notes: Notes) -> list[TextExample]:
        groups = PARTS.get(self.name, {}).get(split, ("",))
        if not groups:
            raise TaskError(f"{self.name} has no {split} split; use --split test with a model fine-tuned on MNLI")
        examples: list[TextExample] = []
        if file := self._file(split):
            groups = (next((group for group in groups[::-1] if group in Path(file).stem), groups[0]),)
        for group in groups:
            try:
                examples += [self._example(row, number, group) for number, row in self._rows(split, group, file, notes)]
            except MissingFileError:
                if group == groups[0]:
                    raise
                notes.add(f"{group} part missing")
        if not examples:
            raise TaskError(f"the {split} split of {self.name} has no examples")
        return examples

    def inputs(self, source: str, notes: Notes) -> Iterator[TextExample]:
        columns = self.benchmark.columns
        own = (row for _, row in _read_own(Path(source), self.benchmark, columns, notes))
        table = read_inputs(source, columns, dict(zip(self.benchmark.hub[1:], columns, strict=True)))
        for row in own if _is_own(Path(source), self.benchmark) else table:
            yield TextExample(tuple(str(row.cells[column]) for column in columns), id=row.cells.get("index"))

    def files(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> dict[str, str]:
        lines: dict[str, list[str]] = {}
        for example, prediction in zip(examples, predictions, strict=True):
            name = f"{SUBMISSION.get(example.group, self.benchmark.folder)}.tsv"
            lines.setdefault(name, ["index\tprediction\n"]).append(f"{example.id}\t{self._submitted(prediction)}\n")
        return {name: "".join(rows) for name, rows in lines.items()}

    def _submitted(self, prediction: Prediction) -> str:
        if isinstance(self.kind, Value):
            return f"{min(max(prediction['value'], self.kind.low), self.kind.high):.3f}"
        return str(prediction["label"])

    def _rows(self, split: Split, group: str, file: str | None, notes: Notes) -> Iterator[Numbered]:
        """Read a split or a group of it, such as MNLI's "matched", or the user's file; a test split needs no labels."""
        task = self.benchmark
        name, hub_name = ("_".join(filter(None, (part, group))) for part in (split, HUB[split]))
        folders = [*FOLDERS.get(task.folder, [task.folder]), task.hub[0]]
        on_hub, folder = hub_sources(self._data, task.hub[0], hub_name, folders)
        if on_hub and file is None:
            return chain.from_iterable(_read_hub(source, task) for source in on_hub)
        path = folder / (file or ("diagnostic.tsv" if task.folder == "AX" else f"{name}.tsv"))
        if not path.is_file():
            hint = f"; name another with {split}_file=FILE" if any(folder.glob("*.tsv")) else ""
            raise MissingFileError(f"no {path.name} in {folder}; found {contents(folder)}{hint}")
        return _read_own(path, task, task.columns if split == "test" else (*task.columns, task.label), notes)

    def _example(self, row: Row, number: int, group: str) -> TextExample:
        raw = row.cells.get(self.benchmark.label)
        label = None if raw is None else self.kind.parse(raw, row.where)
        return TextExample(tuple(row.cells[column] for column in self.benchmark.columns), label, number, group)


def _is_own(path: Path, task: Benchmark) -> bool:
    """Return whether a file has the benchmark's format rather than that of a user's table."""
    if path.suffix != ".tsv" or not path.is_file():
        return False
    start = list(islice(_lines(path), START))
    first = _fields(start[0] if start else "")
    quoted = uses_quotes(start) and any('""' in line for line in start)  # GLUE's files have no quoting
    return _without_header(first, task) or (set(task.columns) <= set(first) and not quoted)


def _read_own(path: Path, task: Benchmark, needed: tuple[str, ...], notes: Notes) -> Iterator[Numbered]:
    """Read a file in the benchmark's format: tab-separated fields without quoting."""
    header: list[str] = []
    count = 0
    for line_number, line in enumerate(_lines(path), 1):
        fields = _fields(line)
        where = f"{path} line {line_number}"
        if not header:
            missing_header = _without_header(fields, task)
            header = COLA_HEADER if missing_header else fields
            if missing := [name for name in needed if name not in header]:
                raise TaskError(f"{path} has no column {missing[0]!r}; found {', '.join(header)}")
            if not missing_header:
                continue
        if len(fields) > len(header):
            reason = "GLUE's files have no quoting, so a field cannot contain a tab"
            raise TaskError(f"{where}: {len(fields)} fields, but the header has {len(header)}; {reason}")
        if len(fields) < len(header):  # a few lines of QQP are broken in two
            notes.add("skipped, fields missing")
            continue
        cells = dict(zip(header, fields, strict=True))
        own = cells.get("index", cells.get("id", ""))
        yield int(own) if own.isdigit() else count, Row(where, cells)
        count += 1


def _without_header(first: list[str], task: Benchmark) -> bool:
    """Return whether the header is missing, as in CoLA's train and dev files."""
    return task.folder == "CoLA" and len(first) == len(COLA_HEADER) and first[1] in task.labels.names


def _fields(line: str) -> list[str]:
    return line.rstrip("\r\n").split("\t")


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8-sig", newline="\n") as file:
            yield from file
    except UnicodeDecodeError as problem:
        byte = problem.object[problem.start]
        raise TaskError(f"{path} is not UTF-8 (byte 0x{byte:02x}); convert it with iconv") from None


def _read_hub(name: str, task: Benchmark) -> Iterator[Numbered]:
    """Read a dataset of the hub, which has its own names for text columns and numbers as labels."""
    for number, (where, record) in enumerate(read_rows(name)):
        absent = [column for column in task.hub[1:] if column not in record]
        if absent:
            raise TaskError(f"{where}: no column {absent[0]!r}; found {', '.join(record)}")
        cells = {ours: record[theirs] for ours, theirs in zip(task.columns, task.hub[1:], strict=True)}
        label = record.get("label")
        if label is not None and label >= 0:  # -1 is a hidden label
            cells[task.label] = label if task.labels.problem == "regression" else task.labels.names[label]
        yield record.get("idx", number), Row(where, cells)
