"""Tables of choices: their files, the columns of context and options, and how labels name the right one."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, Self
from xml.etree import ElementTree

from pydantic.dataclasses import dataclass as validated

from electra.config.tasks import TableConfig
from electra.data.reading.records import Row, read_rows
from electra.data.reading.sources import Source, read_chunks
from electra.errors import TaskError
from electra.tasks.lines import read_cell
from electra.tasks.table.columns import find_cell, find_id, write_columns
from electra.tasks.table.detect import IDS, column_names, usual_column, usual_columns
from electra.tasks.table.files import ENDINGS

XML = ".xml"
FILES = (*ENDINGS, XML)
CONTEXTS = (  # the first whose columns are all there
    *(("ctx",), ("startphrase",), ("sent1", "sent2"), ("premise", "question"), ("premise",)),
    *(("article", "question"), ("passage", "question"), ("context", "question"), ("context",), ("question",)),
    *(("goal",), ("sentence",), ("text",), ("prompt",), ("query",), ("stem",)),
)
LISTS = ("endings", "options", "choices", "candidates", "alternatives", "answers")
SINGLE = re.compile(r"(ending|choice|option|answer|alternative|candidate|solution|sol)[ _-]?(\d+|[a-z])", re.IGNORECASE)
LABELS = ("label", "answer", "answerkey", "answer_key", "correct", "correct_answer", "gold", "target")
HIDDEN = (None, "", -1, "-1")  # labels that a test split does not show
QUESTIONS = {"cause": "What was the cause of this?", "effect": "What happened as a result?"}  # of COPA
READINGS = {  # how labels name the right option; of those that fit equally many rows the first
    "name": "labels are the names of options",
    "index": "labels count from 0",
    "number": "labels count from 1",
    "letter": "labels are letters from A",
    "text": "labels repeat the option",
}


class Choice(NamedTuple):
    """A context, its options, and the index of the right one if it is known."""

    context: str
    options: tuple[str, ...]
    right: int | None = None
    id: Any = None


@validated(frozen=True)
class ChoiceColumns:
    """Which column is what; a ValueError if a stored model names one otherwise."""

    text: tuple[str, ...]  # joined with spaces
    pair: tuple[str, ...]  # one with lists of options, or one for each option
    label: str | None = None
    id: str | None = None
    separator: str | None = None  # between the options in one cell

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Self:
        """Make columns of the keys of `table` or of a stored model; other keys are ignored."""
        others = {key: settings.get(key) for key in ("label", "id", "separator")}
        return cls(_split(settings["text"]), _split(settings["pair"]), **others)

    def __str__(self) -> str:
        """Write the columns as the command line sets them."""
        return write_columns(asdict(self) | {"text": ",".join(self.text), "pair": ",".join(self.pair)})

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that tell a row from others."""
        return self.text + self.pair

    def read(self, row: Row, reading: str | None, labeled: bool) -> Choice:
        """Read an example, or refuse it in one line; without a `reading`, labels are ignored."""
        options, _ = self._options(row)
        parts = [(name, str(find_cell(row, name, "table.text") or "").strip()) for name in self.text]
        asked = [QUESTIONS.get(part, part) if name == "question" else part for name, part in parts]
        right = self._right(row, self.label, reading, labeled) if reading and self.label else None
        return Choice(" ".join(filter(None, asked)), options, right, find_id(row, self.id))

    def find_reading(self, rows: Sequence[Row]) -> str:
        """Return how the labels of most rows name the right option."""
        fitting = Counter(name for row in rows for name in self._positions(row))
        return max(READINGS, key=lambda name: fitting[name]) if fitting else "index"

    def _options(self, row: Row) -> tuple[tuple[str, ...], list[str]]:
        """Return the options of a row, and their names if the row has them."""
        found = [find_cell(row, name, "table.pair") for name in self.pair]
        names: list[str] = []
        if len(self.pair) == 1:
            (cell,) = found
            if isinstance(cell, Mapping):  # as in ARC and CommonsenseQA on the hub
                names = [str(name) for name in cell.get("label") or ()]
                cell = cell.get("text")
            if isinstance(cell, str) and self.separator:
                cell = cell.split(self.separator)
            if not isinstance(cell, list):
                advice = "name a column for each option (table.pair=a,b), or set table.separator"
                raise TaskError(f"{row.where}: column {self.pair[0]!r} has no list of options; {advice}")
            found = cell
        options = tuple("" if option is None else str(option).strip() for option in found)
        if len(options) < 2:
            raise TaskError(f"{row.where}: {len(options)} options; an example needs at least two")
        if "" in options:
            raise TaskError(f"{row.where}: option {options.index('') + 1} of {len(options)} is empty")
        return options, names

    def _right(self, row: Row, label: str, reading: str, labeled: bool) -> int | None:
        if not labeled and read_cell(row.cells.get(label), row.where) in HIDDEN:
            return None
        raw = find_cell(row, label, "table.label")
        positions = self._positions(row)
        if reading not in positions:
            count = len(self._options(row)[0])
            raise TaskError(f"{row.where}: label {raw!r} is none of the {count} options ({READINGS[reading]})")
        return positions[reading]

    def _positions(self, row: Row) -> dict[str, int]:
        """Return the index of the right option by each reading that fits the label."""
        options, names = self._options(row)
        raw = read_cell(row.cells.get(self.label), row.where) if self.label else None
        label = str("" if raw is None else raw).strip()
        number = int(float(label)) if re.fullmatch(r"\d{1,9}(\.0)?", label) else -1
        found = {
            "name": names.index(label) if label in names else -1,
            "index": number,
            "number": number - 1,
            "letter": ord(label.upper()) - ord("A") if re.fullmatch("[A-Za-z]", label) else -1,
            "text": options.index(label) if label in options else -1,
        }
        return {name: place for name, place in found.items() if 0 <= place < len(options)}


def find_columns(rows: Sequence[Row], settings: TableConfig, labeled: bool) -> ChoiceColumns:
    """Return the columns that are set, and for the others those with usual names."""
    text, pair = _split(settings.text), _split(settings.pair)
    others = {"label": filter(None, [settings.label]), "id": filter(None, [settings.id])}
    names = column_names(rows, {"text": text, "pair": pair, **others})
    pair = pair or _usual_options(names)
    label = settings.label or usual_column([name for name in names if name not in pair], LABELS)
    text = text or usual_columns([name for name in names if name not in (*pair, label)], CONTEXTS)
    wanted = {"text": ("context", text), "pair": ("options", pair), "label": ("right option", label or not labeled)}
    for key, (what, column) in wanted.items():
        if not column:
            raise TaskError(f"{rows[0].where}: which column has the {what}? set table.{key}; found {', '.join(names)}")
    return ChoiceColumns(text, pair, label, settings.id or usual_column(names, (*IDS, "ind")), settings.separator)


def _split(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in columns.split(",")) if isinstance(columns, str) else tuple(columns or ())


def _usual_options(names: Sequence[str]) -> tuple[str, ...]:
    """Return a column of lists, or all columns such as `ending0`, `ending1` …, in the order of their numbers."""
    if column := usual_column(names, LISTS):
        return (column,)
    found: dict[str, list[tuple[int, str, str]]] = {}
    for name in names:
        if match := SINGLE.fullmatch(name):
            stem, end = match[1].lower(), match[2].lower()
            found.setdefault(stem, []).append((int(end) if end.isdigit() else 0, end, name))
    several = [columns for columns in found.values() if len(columns) > 1]
    return tuple(name for _, _, name in sorted(several[0])) if several else ()


def read_file(source: str) -> Iterator[Row]:
    """Read the rows of a table or of COPA's XML; `-` has JSON lines."""
    return _read_copa(source) if XML in Path(source).suffixes[-2:] else read_rows(source)


def _read_copa(source: str) -> Iterator[Row]:
    """Read items under the column names of SuperGLUE's COPA, which counts labels from 0."""
    try:
        root = ElementTree.fromstring(b"".join(read_chunks(Source(source, "text"))))
    except ElementTree.ParseError as problem:
        raise TaskError(f"{source} is not XML: {problem}") from None
    for item in root.iter("item"):
        where = f"{source} item {item.get('id')}"
        cells: dict[str, str | int | None] = {"premise": item.findtext("p"), "question": item.get("asks-for")}
        cells |= {"choice1": item.findtext("a1"), "choice2": item.findtext("a2"), "idx": item.get("id")}
        if right := item.get("most-plausible-alternative"):
            if right not in ("1", "2"):
                raise TaskError(f"{where}: most-plausible-alternative is {right!r}; allowed: 1, 2")
            cells["label"] = int(right) - 1
        yield Row(where, cells)
