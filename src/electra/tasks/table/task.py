"""Tasks on a user's table: classification, regression, tagging or question answering."""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Generic

from electra.config.finetune import FinetuneConfig
from electra.data.reading.records import Row
from electra.errors import TaskError
from electra.tasks.answering.files import read_answers
from electra.tasks.answering.questions import Question, make_question
from electra.tasks.answering.task import QuestionAnswering
from electra.tasks.base import AnyTask, Example, Known, Notes, Split
from electra.tasks.lines import read_inputs
from electra.tasks.shown import Field, column_label
from electra.tasks.table.columns import Columns, find_id, split_words
from electra.tasks.table.detect import find_columns
from electra.tasks.table.files import Table
from electra.tasks.tagging.task import Sentence, TaggingTask, learn_tags
from electra.tasks.texts.labels import Classes, Labels, LabelSets, Value, listed
from electra.tasks.texts.task import TextExample, TextTask

MISSING = {"na", "n/a", "nan", "none", "null", "-", "?"}  # as programs and people write missing values


def table_task(name: str, config: FinetuneConfig, known: Known) -> AnyTask:
    """Make the task of a table from its rows, or from what a stored model knows of them."""
    if "kind" not in (known.get("columns") or {}):  # of another family
        known = {}
    table = Table(config, known)
    rows = [] if known else table.read_training_file()
    if known:
        named = config.table.model_dump(exclude_none=True, exclude={"dev_fraction"})
        if named.get("kind", kind := known["columns"]["kind"]) != kind:
            raise TaskError(f"the model was fine-tuned with table.kind={kind}; drop table.kind={named['kind']}")
        columns = Columns(**{**known["columns"], **named})
    else:
        columns = find_columns(rows, config.table)
    table.texts = columns.texts
    if not known:
        table.learn(rows)
    kinds: dict[str, Callable[..., AnyTask]] = {"tagging": TableTagging, "answering": TableAnswering}
    return kinds.get(columns.kind, TableTexts)(config, table, columns, rows, known)


class _FromRows(ABC, Generic[Example]):
    """Reads the examples of a task from the rows of a table."""

    name = "table"
    _table: Table
    _columns: Columns
    _known: Known  # what is stored besides table and columns

    def _found(self, *others: str) -> list[str]:
        """Return the columns, what else was detected, and the columns that are not used."""
        unused = self._table.unused(*self._columns.texts, self._columns.label, self._columns.id)
        return [str(self._columns), *others, *unused]

    @abstractmethod
    def _example(self, row: Row, number: int, labeled: bool | None = True) -> Example:
        """Read a row; `labeled` rows must have a label, None is for rows to predict."""

    def describe(self) -> dict[str, Any]:
        return {**self._known, "columns": asdict(self._columns), **self._table.describe()}

    def read(self, split: Split, notes: Notes) -> list[Example]:
        rows = self._table.read(split, notes)
        return [self._example(row, number, split != "test") for number, row in enumerate(rows)]

    def inputs(self, source: str, notes: Notes) -> Iterator[Example]:
        for number, row in enumerate(read_inputs(source, self._columns.texts)):
            yield self._example(row, number, labeled=None)


class TableTexts(_FromRows[TextExample], TextTask):
    """One or two columns of texts with a class, several labels or a value."""

    def __init__(self, config: FinetuneConfig, table: Table, columns: Columns, rows: list[Row], known: Known) -> None:
        self._table, self._columns = table, columns
        self._known = known or _find_labels(columns, rows)
        super().__init__(config, _labels(columns, self._known))

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple(Field(column_label(name)) for name in self._columns.texts)

    def detected(self) -> list[str]:
        if self._columns.kind == "regression":
            return self._found(f"values from {self._known['low']:g} to {self._known['high']:g}")
        doubts = _doubts(self.labels, self._columns.kind)
        return self._found(f"{len(self.labels)} labels: {listed(self.labels)}", *doubts)

    def baseline(self, examples: Sequence[TextExample]) -> dict[str, Any]:
        if self._columns.kind != "classification":
            return {}
        ((label, count),) = Counter(example.label for example in examples).most_common(1)
        return {"label": label, "accuracy": count / len(examples)}

    def read(self, split: Split, notes: Notes) -> list[TextExample]:
        examples = super().read(split, notes)
        notes.add("empty texts", sum(not text.strip() for example in examples for text in example.texts))
        return examples

    def _example(self, row: Row, number: int, labeled: bool | None = True) -> TextExample:
        columns, label = self._columns, self._columns.read_label(row, labeled)
        if label is not None:
            label = self.kind.parse(columns.split_labels(label) if columns.kind == "multilabel" else label, row.where)
        return TextExample(columns.read_texts(row), label, find_id(row, columns.id))


class TableTagging(_FromRows[Sentence], TaggingTask):
    """A column of words and one of their tags: lists, or texts split at spaces."""

    def __init__(self, config: FinetuneConfig, table: Table, columns: Columns, rows: list[Row], known: Known) -> None:
        self._table, self._columns = table, columns
        sentences = [self._example(row, number) for number, row in enumerate(rows)]
        super().__init__(config.tagging, known or learn_tags(sentences, config.tagging))

    def detected(self) -> list[str]:
        single = ["accuracy of single tags is scored, because they do not mark spans, as B-PER does"]
        return self._found(*super().detected(), *(single if self._plain else []))

    def _example(self, row: Row, number: int, labeled: bool | None = True) -> Sentence:
        words, raw = self._columns.read_words(row), self._columns.read_label(row, labeled)
        tags = None if raw is None else split_words(raw, row.where)
        if tags is not None and len(tags) != len(words):
            raise TaskError(f"{row.where}: {len(words)} words, but {len(tags)} tags; every word needs a tag")
        return Sentence(words, tags, row.where, find_id(row, self._columns.id))


class TableAnswering(_FromRows[Question], QuestionAnswering):
    """Columns of questions, contexts and answers; an empty answer means that there is none."""

    def __init__(self, config: FinetuneConfig, table: Table, columns: Columns, rows: list[Row], known: Known) -> None:
        if columns.pair is None:
            raise TaskError("answering needs a column of contexts; set table.pair")
        self._table, self._columns = table, columns
        questions = [self._example(row, number) for number, row in enumerate(rows)]
        unanswerable = any(not question.answers for question in questions)
        self._known = {"unanswerable": known.get("unanswerable", unanswerable)}
        super().__init__(self.name, config.head, self._known["unanswerable"], known)

    def detected(self) -> list[str]:
        return self._found(f"{'some' if self.unanswerable else 'no'} questions without an answer")

    def read(self, split: Split, notes: Notes) -> list[Question]:
        questions = super().read(split, notes)
        self.note_unanswerable(questions, notes)
        if len({question.id for question in questions}) == len(questions):
            return questions
        notes.add("questions are identified by row numbers, because ids repeat", len(questions))
        return [question._replace(id=str(number)) for number, question in enumerate(questions)]

    def _example(self, row: Row, number: int, labeled: bool | None = True) -> Question:
        question, context = self._columns.read_texts(row)
        given = find_id(row, self._columns.id)
        name = str(number if given is None else given)
        raw = self._columns.read_label(row, labeled)
        if isinstance(raw, Mapping):  # as on the hub: texts and their positions
            return Question(name, question, context, read_answers(raw, row.where))
        answers = list(map(str, raw)) if isinstance(raw, list) else [str(raw)]
        return make_question(name, question, context, None if raw is None else answers)


def _find_labels(columns: Columns, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the distinct labels of the training rows, or the smallest and the largest value."""
    several = columns.kind == "multilabel"
    raw = [(columns.read_label(row), row.where) for row in rows]
    if columns.kind == "regression":
        values = [Value(0, 1).parse(value, where) for value, where in raw]
        found: dict[str, Any] = {"low": min(values), "high": max(values)}
        alike = found["low"] == found["high"]
    else:
        names = {name for value, _ in raw for name in (columns.split_labels(value) if several else [str(value)])}
        found = {"labels": sorted(names, key=_natural)}
        alike = len(names) < 1 if several else len(names) < 2
    if alike:
        raise TaskError(
            f"{rows[0].where}: all rows have the same label in column {columns.label!r}, so there is nothing to learn"
        )
    return found


def _doubts(labels: Sequence[str], kind: str) -> list[str]:
    """Return what may be wrong with the labels, one line each."""
    spellings = Counter(label.lower() for label in labels)
    doubts = {
        "labels that may mean that there is none": [label for label in labels if label.lower() in MISSING],
        "labels that differ only in case": [label for label in labels if spellings[label.lower()] > 1],
    }
    found = [f"{doubt}: {listed(names)}" for doubt, names in doubts.items() if names]
    parts = {part.strip() for label in labels for part in label.split(",")}
    if kind == "classification" and 2 * len(parts) < len(labels):
        found.append("if a cell has several labels, set table.kind=multilabel table.separator=,")
    return found


def _labels(columns: Columns, known: Known) -> Labels[Any]:
    if columns.kind == "regression":
        (name,) = known.get("labels", ["value"])  # LABEL_0 in models of other programs
        return Value(known["low"], known["high"], name=name)
    return LabelSets(known["labels"]) if columns.kind == "multilabel" else Classes(known["labels"], macro=True)


def _natural(label: str) -> tuple[bool, float, str]:
    """Return a sort key: numbers by value, then words."""
    try:
        number = float(label)
    except ValueError:
        number = math.nan
    return (False, number, label) if math.isfinite(number) else (True, 0.0, label)
