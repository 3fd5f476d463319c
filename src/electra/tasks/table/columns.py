"""The columns of a table, and the values of a row."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from shlex import quote
from typing import Any

from pydantic.dataclasses import dataclass

from electra.config.keys import did_you_mean
from electra.config.tasks import Kind
from electra.data.reading.records import Row
from electra.errors import TaskError
from electra.tasks.lines import read_cell

MAY_BE_EMPTY = ("multilabel", "answering")  # an empty cell is a label: no label applies, or there is no answer


@dataclass(frozen=True)
class Columns:
    """Which column is what."""

    kind: Kind
    text: str
    pair: str | None = None
    label: str | None = None  # None if labels are not known
    id: str | None = None
    separator: str | None = None  # between several labels in one cell

    def __str__(self) -> str:
        """Write the columns as the command line sets them."""
        return write_columns(asdict(self))

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that hold texts."""
        return (self.text, self.pair) if self.pair else (self.text,)

    def read_texts(self, row: Row) -> tuple[str, ...]:
        """Return the one or two texts of a row; an empty cell is an empty text."""
        keys = zip(self.texts, ("table.text", "table.pair"), strict=False)
        found = [find_cell(row, column, key) for column, key in keys]
        if any(isinstance(text, (list, dict)) for text in found):
            raise TaskError(f"{row.where}: a list or a record instead of a text in {' or '.join(self.texts)}")
        return tuple("" if text is None else str(text) for text in found)

    def read_words(self, row: Row) -> tuple[str, ...]:
        """Return the words of a row: a list, or a text split at spaces."""
        return split_words(find_cell(row, self.text, "table.text"), row.where)

    def read_label(self, row: Row, labeled: bool | None = True) -> Any:
        """Return the label of a row, None if it is unknown; `labeled` rows must have one, None ignores it."""
        if labeled is None or self.label is None or (self.label not in row.cells and not labeled):
            return None
        raw = find_cell(row, self.label, "table.label")
        raw = raw.strip() if isinstance(raw, str) else "" if raw is None else raw
        if raw != "" or self.kind in MAY_BE_EMPTY:
            return raw
        if labeled:
            raise TaskError(f"{row.where}: the label in column {self.label!r} is empty")
        return None

    def split_labels(self, raw: Any) -> list[str]:
        """Return the labels in one cell."""
        parts = raw if isinstance(raw, list) else str(raw).split(self.separator or ",")
        return [part for part in (str(part).strip() for part in parts) if part]


def write_columns(columns: Mapping[str, str | None]) -> str:
    """Write columns by the keys of `table` as the command line sets them."""
    return " ".join(f"table.{key}={quote(column)}" for key, column in columns.items() if column is not None)


def split_words(raw: Any, where: str) -> tuple[str, ...]:
    """Return a list of words, or split a text at its spaces."""
    if isinstance(raw, dict):
        raise TaskError(f"{where}: a record instead of words")
    listed = raw if isinstance(raw, list) else str("" if raw is None else raw).split()
    words = tuple("" if word is None else str(word) for word in listed)
    if not words:
        raise TaskError(f"{where}: a sentence without words")
    return words


def is_number(value: Any) -> bool:
    """Return whether a value is a number, or the text of one."""
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def find_cell(row: Row, column: str, key: str) -> Any:
    """Return a cell of a row, whose column was set by a config key."""
    check_column(column, row.cells, row.where, key)
    return read_cell(row.cells[column], row.where)


def find_id(row: Row, column: str | None) -> Any:
    """Return the identifier in a column of a row, as JSON can hold it; None without such a column."""
    raw: Any = row.cells.get(column) if column else None
    try:
        value = read_cell(raw, row.where)
    except TaskError:  # bytes that are no text
        return raw.hex()
    return value if isinstance(value, str | int | float | None) else str(value)


def check_column(column: str, names: Iterable[str], where: str, key: str) -> None:
    """Refuse a column that is not there, though a config key names it."""
    if column not in names:
        found = list(map(str, names))
        hint = did_you_mean(column, found)
        raise TaskError(f"{where}: no column {column!r} ({key}); found {', '.join(found) or 'none'}{hint}")
