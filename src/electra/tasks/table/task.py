"""Tasks on a user's table: classification, regression, tagging or question answering."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from electra.config.finetune import FinetuneConfig
from electra.data.reading.records import Row
from electra.errors import TaskError
from electra.tasks.answering.files import read_answers
from electra.tasks.answering.questions import Question, make_question
from electra.tasks.answering.task import QuestionAnswering
from electra.tasks.base import Known, Notes, Split, Task
from electra.tasks.lines import read_inputs
from electra.tasks.shown import Field, column_label
from electra.tasks.table.columns import Columns, split_words
from electra.tasks.table.detect import find_columns
from electra.tasks.table.files import Table
from electra.tasks.tagging.task import Sentence, TaggingTask, learn_tags
from electra.tasks.texts.labels import Classes, Labels, LabelSets, Value, listed
from electra.tasks.texts.task import TextExample, TextTask


def table_task(name: str, config: FinetuneConfig, known: Known) -> Task[Any, Any, Any]:
    """Make the task of a table from its rows, or from what a stored model knows of them."""
    if "kind" not in (known.get("columns") or {}):  # of another family
        known = {}
    table = Table(config, known)
    rows = [] if known else table.read_training_file()
    if known:
        named = config.table.model_dump(exclude_none=True, exclude={"dev_fraction"})
        columns = Columns(**{**known["columns"], **named})
    else:
        columns = find_columns(rows, config.table)
    table.texts = columns.texts
    if not known:
        table.learn(rows)
    if columns.kind == "tagging":
        return TableTagging(name, config, table, columns, rows, known)
    if columns.kind == "answering":
        return TableAnswering(name, config, table, columns, rows, known)
    return TableTexts(name, config, table, columns, rows, known)


class TableTexts(TextTask):
    """One or two columns of texts with a class, several labels or a value."""

    def __init__(
        self, name: str, config: FinetuneConfig, table: Table, columns: Columns, rows: Sequence[Row], known: Known
    ) -> None:
        self.name, self._table, self._columns = name, table, columns
        self._known = known or _find_labels(columns, rows)
        super().__init__(config, _labels(columns, self._known))

    @property
    def fields(self) -> tuple[Field, ...]:
        """The texts under the names of their columns."""
        return tuple(Field(column_label(name)) for name in self._columns.texts)

    def describe(self) -> dict[str, Any]:
        """Return the columns, and the labels of the training rows."""
        return {**self._known, "columns": asdict(self._columns), **self._table.describe()}

    def detected(self) -> list[str]:
        """Return the columns and the labels."""
        if self._columns.kind == "regression":
            return [str(self._columns), f"values from {self._known['low']:g} to {self._known['high']:g}"]
        return [str(self._columns), f"{len(self.labels)} labels: {listed(self.labels)}"]

    def read(self, split: Split, notes: Notes) -> list[TextExample]:
        """Read the rows of a split; a test file needs no labels."""
        rows = self._table.read(split, notes)
        examples = [self._example(row, split != "test") for row in rows]
        notes.add("empty texts", sum(not text.strip() for example in examples for text in example.texts))
        return examples

    def inputs(self, source: str, notes: Notes) -> Iterator[TextExample]:
        """Read texts from a table with the same columns, or from lines of text."""
        for where, cells in read_inputs(source, self._columns.texts):
            yield TextExample(self._columns.read_texts(cells, where), id=self._columns.read_id(cells, where))

    def _example(self, row: Row, labelled: bool) -> TextExample:
        columns = self._columns
        raw = columns.read_label(row.cells, row.where, labelled)
        label = None
        if raw is not None:
            label = self.kind.parse(columns.split_labels(raw) if columns.kind == "multilabel" else raw, row.where)
        return TextExample(columns.read_texts(row.cells, row.where), label, columns.read_id(row.cells, row.where))


class TableTagging(TaggingTask):
    """A column of words and one of their tags: lists, or texts split at spaces."""

    def __init__(
        self, name: str, config: FinetuneConfig, table: Table, columns: Columns, rows: Sequence[Row], known: Known
    ) -> None:
        self.name, self._table, self._columns = name, table, columns
        super().__init__(config.tagging, known or learn_tags([*map(self._sentence, rows)], config.tagging))

    def describe(self) -> dict[str, Any]:
        """Return the columns, and the tags of the training rows."""
        return {**super().describe(), "columns": asdict(self._columns), **self._table.describe()}

    def detected(self) -> list[str]:
        """Return the columns and the tags."""
        return [str(self._columns), *super().detected()]

    def read(self, split: Split, notes: Notes) -> list[Sentence]:
        """Read the rows of a split; a test file needs no tags."""
        return [self._sentence(row, split != "test") for row in self._table.read(split, notes)]

    def inputs(self, source: str, notes: Notes) -> Iterator[Sentence]:
        """Read sentences from a table with the column of words, or from lines of text."""
        for where, cells in read_inputs(source, self._columns.texts):
            yield Sentence(self._columns.read_words(cells, where), id=self._columns.read_id(cells, where))

    def _sentence(self, row: Row, labelled: bool = True) -> Sentence:
        words = self._columns.read_words(row.cells, row.where)
        raw = self._columns.read_label(row.cells, row.where, labelled)
        tags = None if raw is None else split_words(raw, row.where)
        if tags is not None and len(tags) != len(words):
            raise TaskError(f"{row.where}: {len(words)} words, but {len(tags)} tags; every word needs a tag")
        return Sentence(words, tags, row.where, self._columns.read_id(row.cells, row.where))


class TableAnswering(QuestionAnswering):
    """Columns of questions, contexts and answers; an empty answer means that there is none."""

    def __init__(
        self, name: str, config: FinetuneConfig, table: Table, columns: Columns, rows: Sequence[Row], known: Known
    ) -> None:
        if columns.pair is None:
            raise TaskError("answering needs a column of contexts; set table.pair")
        self._table, self._columns = table, columns
        questions = [self._question(row, number) for number, row in enumerate(rows)]
        unanswerable = any(not question.answers for question in questions)
        super().__init__(name, config.head, known.get("unanswerable", unanswerable), known)

    def describe(self) -> dict[str, Any]:
        """Return the columns, and whether there are questions without an answer."""
        return {"unanswerable": self.unanswerable, "columns": asdict(self._columns), **self._table.describe()}

    def detected(self) -> list[str]:
        """Return the columns, and whether there are questions without an answer."""
        return [str(self._columns), f"{'some' if self.unanswerable else 'no'} questions without an answer"]

    def read(self, split: Split, notes: Notes) -> list[Question]:
        """Read the rows of a split; a test file needs no answers."""
        rows = self._table.read(split, notes)
        questions = [self._question(row, number, split != "test") for number, row in enumerate(rows)]
        self.note_unanswerable(questions, notes)
        if len({question.id for question in questions}) == len(questions):
            return questions
        notes.add("questions are identified by row numbers, because ids repeat", len(questions))
        return [replace(question, id=str(number)) for number, question in enumerate(questions)]

    def inputs(self, source: str, notes: Notes) -> Iterator[Question]:
        """Read questions from a table with both columns, or from lines with a tab between question and context."""
        for number, row in enumerate(read_inputs(source, self._columns.texts)):
            yield self._question(row, number, labelled=False)

    def _question(self, row: Row, number: int, labelled: bool = True) -> Question:
        question, context = self._columns.read_texts(row.cells, row.where)
        given = self._columns.read_id(row.cells, row.where)
        name = str(number if given is None else given)
        raw = self._columns.read_label(row.cells, row.where, labelled)
        if isinstance(raw, Mapping):  # as on the hub: texts and their positions
            return Question(name, question, context, read_answers(raw, row.where))
        answers = list(map(str, raw)) if isinstance(raw, list) else [str(raw)]
        return make_question(name, question, context, None if raw is None else answers)


def _find_labels(columns: Columns, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the distinct labels of the training rows, or the smallest and the largest value."""
    several = columns.kind == "multilabel"
    raw = [(columns.read_label(row.cells, row.where), row.where) for row in rows]
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


def _labels(columns: Columns, known: Known) -> Labels[Any]:
    if columns.kind == "regression":
        (name,) = known.get("labels", ["value"])  # LABEL_0 in models of other programs
        return Value(known["low"], known["high"], name=name)
    return LabelSets(known["labels"]) if columns.kind == "multilabel" else Classes(known["labels"])


def _natural(label: str) -> tuple[bool, float, str]:
    """Return a sort key: numbers by value, then words."""
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label
