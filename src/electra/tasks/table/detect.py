"""Detect the columns of a table: by the settings, else by their names, else by their values."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from electra.config.tasks import Kind, TableConfig
from electra.data.reading.records import Row
from electra.errors import TaskError
from electra.tasks.lines import read_cell
from electra.tasks.table.columns import Columns, check_column, is_number

FIRST_LABELS = (  # the first of these is the label, whatever else there is
    *("label", "labels", "gold_label", "gold", "class", "target", "is_duplicate"),
    *("ner_tags", "pos_tags", "chunk_tags"),
)
EQUAL_LABELS = (  # two of these may both be labels
    *("category", "intent", "sentiment", "emotion", "score", "similarity", "rating", "stars", "tags", "tag"),
)
LABELS = (*FIRST_LABELS, *EQUAL_LABELS, "answer", "answers")
ABOUT = re.compile(  # names of columns that are rather about a row than its label
    r"(.*[\W_])?(id|idx|index|guid|uuid|url|uri)|split|fold|lang|language|locale|source|author|date|time|timestamp",
    re.IGNORECASE,
)
QUESTIONS = (("question", "context"), ("question", "passage"), ("query", "context"))
PAIRS = (
    *(("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2"), ("premise", "hypothesis")),
    *(("text_a", "text_b"), ("sentence_a", "sentence_b"), ("query", "document"), ("query", "passage")),
    *(("question", "sentence"), ("question", "answer"), ("a", "b")),
)
WORDS = ("words", "tokens")
TEXTS = (*WORDS, "text", "sentence", "review", "comment", "content", "document", "body", "message", "tweet", "question")
IDS = ("id", "idx", "index", "guid", "uuid")
SEPARATORS = ("|", ";")  # not the comma, which is part of many labels
SAMPLE = 1000  # rows that are used to detect the columns
LISTS = re.compile(r"""\s*(\[\s*(['"\d-].*)?\]|\{\s*['"].*\})\s*""", re.DOTALL)  # as pandas writes them to CSV
MANY = 20  # more distinct integers than this are values, not classes
PHRASE = 4  # words of a cell; a column with as many on average is rather a text than a label


def find_columns(rows: Sequence[Row], settings: TableConfig) -> Columns:
    """Return the columns of a table, with the kind of labels from all of its rows."""
    sample, where = rows[:SAMPLE], rows[0].where
    wanted = settings.model_dump(include={"text", "pair", "label", "id"}, exclude_none=True)
    names = column_names(rows, {key: [column] for key, column in wanted.items()})
    text, pair = settings.text, settings.pair
    label = settings.label or _find_label(rows, names, settings)
    if text is None:
        text, found = _find_texts(sample, [name for name in names if name not in (label, pair)])
        pair = pair or found
    for name in (text, label):
        values = _values(sample, name)
        if values and all(isinstance(value, str) and LISTS.fullmatch(value) for value in values):
            raise TaskError(f"{where}: column {name!r} has lists or records as text; use JSON lines or Parquet")
    kind, separator = _find_kind(rows, text, pair, label, settings)
    return Columns(kind, text, pair, label, settings.id or usual_column(names, IDS), separator)


def column_names(rows: Sequence[Row], wanted: Mapping[str, Iterable[str]]) -> list[str]:
    """Return the columns of a table; those `wanted` by a key of `table` must be among them."""
    names = list(dict.fromkeys(name for row in rows[:SAMPLE] for name in row.cells))
    for key, columns in wanted.items():
        for column in columns:
            check_column(column, names, rows[0].where, f"table.{key}")
    return names


def usual_columns(names: Sequence[str], usual: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Return the columns of the first usual names that are all there, ignoring case, spaces and dashes."""
    plain = {name.lower().replace(" ", "_").replace("-", "_"): name for name in reversed(names)}
    return next((tuple(plain[name] for name in group) for group in usual if plain.keys() >= set(group)), ())


def usual_column(names: Sequence[str], usual: Iterable[str]) -> str | None:
    """Return the first column with one of the usual names, ignoring case, spaces and dashes."""
    return next(iter(usual_columns(names, [[name] for name in usual])), None)


def _values(rows: Sequence[Row], name: str) -> list[Any]:
    cells = (row.cells.get(name) for row in rows)
    there = (cell for cell in cells if cell not in (None, "") and cell == cell)  # not NaN
    return [cell.decode(errors="replace") if isinstance(cell, bytes) else cell for cell in there]


def _find_label(rows: Sequence[Row], names: Sequence[str], settings: TableConfig) -> str:
    """Return the column of labels: the one with a usual name, else the only one whose values repeat like labels."""
    taken = {settings.text, settings.pair, settings.id, usual_column(names, IDS)}
    names = [name for name in names if name not in taken]
    if first := usual_column(names, FIRST_LABELS):
        return first
    counts = {name: len({str(value) for value in _values(rows, name)}) for name in names}
    if found := [name for name in names if usual_column([name], EQUAL_LABELS)]:
        return _only([name for name in found if counts[name] > 1] or found, names, rows)
    if answer := usual_column(names, LABELS):
        return answer
    texts = {*usual_columns(names, (*QUESTIONS, *PAIRS)), usual_column(names, TEXTS)}
    repeating = [name for name in names if 1 < counts[name] <= len(rows) / 2 and name not in texts]
    if len(names) == 2 and settings.text is None:  # the other one is the text
        found = [name for name in repeating if counts[name] == min(counts.values())]
    else:
        found = [name for name in repeating if len(names) == 1 or not ABOUT.fullmatch(name)]
        found = [name for name in found if is_few(counts[name], len(rows))] or found
        found = [name for name in found if mean_words(rows[:SAMPLE], name) < PHRASE] or found
    best = _only(found, names, rows)
    if best in map(str, _values(rows, best)):
        raise TaskError(f"{rows[0].where}: {best!r} in the header is also a label; add a line with column names")
    return best


def _only(found: Sequence[str], names: Sequence[str], rows: Sequence[Row]) -> str:
    """Return the column that was found, or ask which one of several it is."""
    if len(found) != 1:
        choice = ", ".join(found or names)
        raise TaskError(f"{rows[0].where}: which column is the label? set table.label, one of {choice}")
    return found[0]


def is_few(distinct: int, rows: int) -> bool:
    """Return whether a column with so many distinct values in so many rows looks like labels."""
    return distinct <= min(rows / 2, max(MANY, rows / MANY))


def _find_texts(rows: Sequence[Row], names: Sequence[str]) -> tuple[str, str | None]:
    """Return two columns named like a pair, one named like a text, or those with several words per cell."""
    if pair := usual_columns(names, (*QUESTIONS, *PAIRS)):
        return pair[0], pair[1]
    if text := usual_column(names, TEXTS):
        return text, None
    wordy = [name for name in names if mean_words(rows, name) >= 2]
    if len(wordy) == 2:
        return wordy[0], wordy[1]
    longest = max(names, key=lambda name: _mean(rows, name, len), default=None)
    if longest is None or not _mean(rows, longest, len):
        choice = f"set table.text, one of {', '.join(names)}" if names else "there is no column besides the label"
        raise TaskError(f"{rows[0].where}: which column is the text? {choice}")
    return longest, None


def _mean(rows: Sequence[Row], name: str, size: Callable[[str], int]) -> float:
    """Return the mean size of a column's texts; numbers and other values count as 0."""
    values = _values(rows, name)
    texts = [value for value in values if isinstance(value, str) and not is_number(value)]
    return sum(map(size, texts)) / len(values) if values else 0.0


def mean_words(rows: Sequence[Row], name: str) -> float:
    """Return the mean number of words of a column's cells."""
    return _mean(rows, name, lambda value: len(value.split()))


def _find_kind(
    rows: Sequence[Row], text: str, pair: str | None, label: str, settings: TableConfig
) -> tuple[Kind, str | None]:
    """Return what to predict, and the separator of several labels."""
    values = _values(rows, label)
    several = settings.kind == "multilabel"
    separator = settings.separator or _find_separator(values, several)
    if settings.kind:
        return settings.kind, (separator or ",") if several else None
    asked = pair and (text.lower(), pair.lower()) in QUESTIONS and label.lower().startswith("answer")
    if pair and asked and _occur_in(rows, label, pair):
        return "answering", None
    if text.lower() in WORDS or (values and isinstance(rows[0].cells.get(text), list)):
        return "tagging", None
    if separator or any(isinstance(value, list) for value in values):
        return "multilabel", separator or ","
    distinct = {str(value) for value in values}
    numbers = set(filter(is_number, distinct))
    measured = len(numbers) > MANY or any(float(number) % 1 for number in numbers)
    if numbers == distinct:
        return ("regression" if measured else "classification"), None
    place, classes = f"{rows[0].where}: column {label!r}", "table.kind=classification if they are labels"
    if measured and 2 * len(numbers) > len(distinct):
        where, odd = next((row.where, v) for row in rows for v in _values([row], label) if str(v) not in numbers)
        found = f"{odd!r} in column {label!r} is not a number, unlike most values"
        raise TaskError(f"{where}: {found}; correct it, or set {classes}")
    if all(re.fullmatch(r"[-+]?\d+,\d+", value) for value in distinct) and distinct:
        raise TaskError(f"{place} has decimal commas, such as {min(distinct)}; write points, or set {classes}")
    if len(distinct) > max(MANY, len(rows) / 2):
        found = f"{len(distinct)} different values in {len(rows)} rows, too many for labels"
        raise TaskError(f"{place} has {found}; set table.label, or {classes}")
    return "classification", None


def _occur_in(rows: Sequence[Row], label: str, context: str) -> bool:
    """Return whether at least half of the answers occur in their contexts, unlike yes and no."""
    found = []
    for row in rows:
        value = read_cell(row.cells.get(label), row.where)
        value = value.get("text") if isinstance(value, Mapping) else value
        several = value if isinstance(value, list) else [value]
        answers = [str(answer) for answer in several if answer is not None and str(answer).strip()]
        if answers:
            words = "|".join(map(re.escape, answers))
            place = re.search(rf"(?<!\w)({words})(?!\w)", str(row.cells.get(context)), re.ASCII | re.IGNORECASE)
            found.append(place is not None)
    return sum(found) * 2 >= len(found)


def _find_separator(values: Sequence[Any], several: bool) -> str | None:
    """Return the sign that separates labels, if there are several: some repeat in other cells."""
    cells = {value for value in values if isinstance(value, str)}
    for sign in SEPARATORS:
        parts = {part.strip() for cell in cells for part in cell.split(sign)}
        if any(sign in cell for cell in cells) and (several or len(parts) <= len(cells)):
            return sign
    return None
