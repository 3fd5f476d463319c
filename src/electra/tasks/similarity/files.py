"""Files of similar texts: pairs, triplets, scored or labeled pairs in tables, SQuAD, SemEval's STS, and raw text."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, islice
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple

from pydantic.dataclasses import dataclass as validated

from electra.config.finetune import FinetuneConfig
from electra.config.tasks import TableConfig
from electra.data.reading.records import ROWS, TEXT_COLUMNS, Row, find_column, longest, read_lines, read_rows
from electra.data.reading.sources import Source, find_sources, read_chunks
from electra.errors import TaskError
from electra.tasks.answering.files import read_questions
from electra.tasks.base import Known, Notes, Split
from electra.tasks.similarity.passages import COLUMNS, MOST, read_pairs
from electra.tasks.table.columns import find_cell, find_id, is_number, write_columns
from electra.tasks.table.detect import (
    IDS,
    LABELS,
    PAIRS,
    PHRASE,
    QUESTIONS,
    SAMPLE,
    column_names,
    is_few,
    mean_words,
    usual_column,
    usual_columns,
)
from electra.tasks.table.files import Table
from electra.tasks.texts.labels import Value

ANCHORS = (  # columns of a text and of one like it
    *(("anchor", "positive"), ("query", "positive"), ("query", "pos"), ("question", "positive"), ("text", "like")),
    *(("title", "body"), ("title", "text"), ("title", "abstract"), ("headline", "article")),
    *(("question", "answers"), ("query", "answer")),
    *(*QUESTIONS, *PAIRS),
)
SCORES = ("label", "labels", "gold_label", "gold", "score", "similarity", "is_duplicate")  # of a pair; see LABELS
NEGATIVE = re.compile(r"(hard[ _-]?)?neg(ative)?s?([ _-]?\d+)?", re.IGNORECASE)
NAMED = re.compile(r"(.*[\W_])?(id|idx|index|guid|uuid|url|uri|link|href|file|path)", re.IGNORECASE)  # and no text
ADDRESS = re.compile(r"([a-z]+://|www\.)\S+|[\w.+-]+@[\w-]+\.[\w.-]+", re.IGNORECASE)
SIMILAR = ("entailment", "1", "true", "yes", "duplicate", "similar", "paraphrase", "equivalent", "same", "relevant")
DIFFERENT = ("contradiction", "not_entailment", "0", "false", "no", "not_duplicate", "different", "unrelated")
NEITHER = ("neutral", "-")  # of natural language inference: neither similar nor different enough
ENTAILMENT = {  # labels of these columns are numbers on the hub
    ("premise", "hypothesis"): {"0": "entailment", "1": "neutral", "2": "contradiction"},
    ("question", "sentence"): {"0": "entailment", "1": "not_entailment"},
}
STS = re.compile(r"(20\d\d)\..+\.tsv")  # SemEval's files, one for each source of a year
SQUAD = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"(data|version)"\s*:')  # how its files begin
MOST_NEGATIVES = 7  # of one example
PLAIN = "remove the column to train on pairs of similar texts"
BEYOND = f"negatives beyond {MOST_NEGATIVES} of an example"

Kind = Literal["pairs", "scored", "labeled"]


class Similar(NamedTuple):
    """A text, one that is compared with it, and texts that are less similar."""

    texts: tuple[str, ...]
    score: float | None = None  # how similar the two are
    ranked: bool = False  # whether the second is to be found with the first
    group: str = ""  # part of the split that is scored separately
    id: Any = None


@validated(frozen=True)
class Columns:
    """Which column is what."""

    kind: Kind
    text: str
    pair: tuple[str, ...]  # the second text, then negatives
    label: str | None = None  # score or label
    id: str | None = None

    def __str__(self) -> str:
        """Write the columns as the command line sets them."""
        set_as = {"text": self.text, "pair": ",".join(self.pair), "label": self.label, "id": self.id}
        return write_columns(set_as)

    @property
    def texts(self) -> tuple[str, ...]:
        """The columns that tell a row from others."""
        return self.text, *self.pair

    def read(self, rows: Sequence[Row], notes: Notes, training: bool = False) -> list[Similar]:
        """Return the examples of some rows, or raise a one-line error that names the row."""
        if self.kind == "labeled":
            return self._labeled(rows, notes, training)
        return (self._scored if self.kind == "scored" else self._pairs)(rows, notes)

    def _pairs(self, rows: Sequence[Row], notes: Notes) -> list[Similar]:
        found = []
        for row in rows:
            (first,), *others = (self._cell(row, name) for name in self.texts)
            if not others:  # a text whose vector is wanted
                found.append(Similar((first,), id=find_id(row, self.id)))
                continue
            seconds, negatives = others[0], [text for texts in others[1:] for text in texts]
            notes.add(BEYOND, max(0, len(negatives) - MOST_NEGATIVES))
            for second in seconds:
                texts = (first, second, *negatives[:MOST_NEGATIVES])
                found.append(Similar(texts, ranked=True, id=find_id(row, self.id)))
        return found

    def _scored(self, rows: Sequence[Row], notes: Notes) -> list[Similar]:
        found = []
        for row in rows:
            raw = self._label(row)
            if raw == "":
                notes.add("rows without a score, skipped")
                continue
            score = Value(0, 1).parse(raw, row.where)
            group = str(row.cells.get("year", "")) if STS.match(Path(row.where).name) else ""  # also a column of STS-B
            found.append(Similar(self._pair(row), score, group=group, id=find_id(row, self.id)))
        for group in dict.fromkeys(example.group for example in found) or [""]:
            if len({example.score for example in found if example.group == group}) < 2:
                few = f"fewer than two different scores{f' of {group}' if group else ''} in column {self.label!r}"
                raise TaskError(f"{rows[0].where}: {few}, so there is nothing to compare; add rows with other scores")
        return found

    def _labeled(self, rows: Sequence[Row], notes: Notes, training: bool) -> list[Similar]:
        """Return the similar pairs; different texts of the same first text become negatives.

        A first text with only different ones is paired with itself in training, and not searched for otherwise.
        """
        similar: list[Similar] = []
        different: dict[str, list[str]] = defaultdict(list)
        for row in rows:
            label = _label_name(self._label(row), (self.text, self.pair[0]))
            texts = self._pair(row)
            if label in SIMILAR:
                similar.append(Similar(texts, ranked=True, id=find_id(row, self.id)))
            elif label in DIFFERENT:
                different[texts[0]].append(texts[1])
            elif label in NEITHER:
                notes.add("rows neither similar nor different, skipped")
            else:
                known = f"{', '.join(SIMILAR)} for similar texts, {', '.join(DIFFERENT)} for others"
                found = f"unknown label {label!r} in column {self.label!r}"
                raise TaskError(f"{row.where}: {found}; use {known}; or {PLAIN}")
        if not similar:
            raise TaskError(f"{rows[0].where}: no row has a label of similar texts in column {self.label!r}")
        lonely = different.keys() - {example.texts[0] for example in similar}
        if training:
            similar += [Similar((text, text), ranked=True) for text in different if text in lonely]
        else:
            notes.add("texts with only different ones, not searched for", len(lonely))
        for text in {example.texts[0] for example in similar}:
            notes.add(BEYOND, max(0, len(different[text]) - MOST_NEGATIVES))
        return [one._replace(texts=(*one.texts, *different[one.texts[0]][:MOST_NEGATIVES])) for one in similar]

    def _pair(self, row: Row) -> tuple[str, str]:
        (first,), (second,) = self._cell(row, self.text), self._cell(row, self.pair[0])
        return first, second

    def _cell(self, row: Row, name: str) -> list[str]:
        """Return the texts of a cell: one, or in the columns of second texts and negatives of pairs a list of them."""
        cell = find_cell(row, name, "table.text" if name == self.text else "table.pair")
        several = isinstance(cell, list) and self.kind == "pairs" and name != self.text
        texts = cell if several else [cell]
        if any(isinstance(text, (list, dict)) for text in texts):
            raise TaskError(f"{row.where}: a list or a record instead of a text in column {name!r}")
        if not all(text is not None and str(text).strip() for text in texts) or (not texts and name == self.pair[0]):
            raise TaskError(f"{row.where}: the text in column {name!r} is empty; fill it in, or remove the row")
        return [str(text).strip() for text in texts]

    def _label(self, row: Row) -> Any:
        assert self.label
        cell = find_cell(row, self.label, "table.label")
        return "" if cell is None else cell.strip() if isinstance(cell, str) else cell


def find_columns(rows: Sequence[Row], settings: TableConfig) -> Columns:
    """Return the columns that are set, and for the others those with usual names; pairs of raw text have their own."""
    if is_raw_text(rows[0]):
        return Columns("pairs", *COLUMNS[:1], COLUMNS[1:2])
    text, *pair = find_texts(rows, settings)
    names = [name for name in column_names(rows, {}) if name not in (text, *pair)]
    label = _find_label(rows, names, (text, pair[0]), settings) if len(pair) == 1 else None
    kind = _find_kind(rows, label, (text, pair[0])) if label else "pairs"
    return Columns(kind, text, tuple(pair), None if kind == "pairs" else label, settings.id or usual_column(names, IDS))


def with_label(columns: Columns, rows: Sequence[Row], settings: TableConfig) -> Columns:
    """Return the columns of pairs without a score or label with that which these rows have, if any."""
    if columns.kind != "pairs" or len(columns.pair) != 1 or is_raw_text(rows[0]):
        return columns
    pair = (columns.text, columns.pair[0])
    label = _find_label(rows, [name for name in column_names(rows, {}) if name not in pair], pair, settings)
    kind = _find_kind(rows, label, pair) if label else "pairs"
    return columns if kind == "pairs" else replace(columns, kind=kind, label=label)


def find_texts(rows: Sequence[Row], settings: TableConfig) -> tuple[str, ...]:
    """Return the columns of two texts and of negatives: those that are set, have usual names, or are the only two."""
    wanted = settings.model_dump(include={"text", "label", "id"}, exclude_none=True)
    set_pair = tuple(name.strip() for name in (settings.pair or "").split(",") if name.strip())
    names = column_names(rows, {key: [column] for key, column in wanted.items()} | {"pair": set_pair})
    texts = (settings.text, *set_pair) if settings.text and set_pair else _find_pair(rows, settings)
    if not texts:
        raise _which(rows[0].where, names, "read raw text")
    negatives = () if set_pair else [name for name in names if NEGATIVE.fullmatch(name)]
    text, pair = settings.text or texts[0], set_pair or texts[1:]
    if text in pair:
        raise TaskError(f"the column {text!r} is both table.text and table.pair; a text is not compared with itself")
    return text, *pair, *negatives


def _which(where: str, names: Sequence[str], otherwise: str) -> TaskError:
    found = f"found {', '.join(names) or 'none'}"
    advice = f"set table.text and table.pair, or table.text alone to {otherwise}"
    return TaskError(f"{where}: which columns hold the two texts? {advice}; {found}")


def find_inputs(row: Row, alike: Sequence[Row], settings: TableConfig) -> Columns:
    """Return the columns of texts to compare, or of a single text; labels are not needed for that.

    Where a row seems to have two texts, other rows may show that one of them is none.
    """
    id_column = settings.id if settings.id in row.cells else usual_column(list(row.cells), IDS)
    settings = settings.model_copy(update={"label": None, "id": id_column})
    if settings.pair or _find_pair([row], settings):
        if alike and not settings.pair and not _find_pair(alike, settings):
            raise _which(row.where, list(row.cells), "write vectors")
        text, *pair = find_texts([row], settings)
        return Columns("pairs", text, tuple(pair), id=id_column)
    return Columns("pairs", find_column(row.cells, settings.text, row.where), (), id=id_column)


def _find_pair(rows: Sequence[Row], settings: TableConfig) -> tuple[str, ...]:
    """Return the columns of two texts: those with usual names, or the only two if both hold texts.

    Where only table.text is set, it has to be the first of two with usual names.
    """
    names = column_names(rows, {})
    first = settings.text if settings.text in names and not settings.pair else None
    usual = (usual_columns(names, [pair]) for pair in ANCHORS)
    found = next((pair for pair in usual if pair and first in (None, pair[0])), ())
    if found or first or len(names) != 2 or settings.id in names:
        return found
    return () if any(_is_no_text(rows, name) for name in names if name != settings.pair) else tuple(names)


def _is_no_text(rows: Sequence[Row], name: str) -> bool:
    """Return whether a column holds a few values, identifiers, numbers or addresses, as its name or its cells say."""
    values = [str(value).strip() for value in (row.cells.get(name) for row in rows[:SAMPLE]) if value not in (None, "")]
    distinct = len(set(values))
    few = is_few(distinct, len(values)) and mean_words(rows[:SAMPLE], name) < PHRASE  # answers may repeat
    labels = 2 * distinct <= len(values) if usual_column([name], LABELS) else few
    plain = values and all(is_number(value) or ADDRESS.fullmatch(value) for value in values)
    return bool(NAMED.fullmatch(name) or plain or labels)


def _find_label(rows: Sequence[Row], names: Sequence[str], pair: tuple[str, str], settings: TableConfig) -> str | None:
    """Return the column of scores or labels of pairs; one that might only rate the texts has to be set."""
    found = settings.label or usual_column(names, SCORES)
    if found or (settings.text and settings.pair):
        return found
    for name in names:
        values = {str(row.cells.get(name)) for row in rows} if usual_column([name], LABELS) else set()
        known = (*SIMILAR, *DIFFERENT, *NEITHER)
        if len(values) > 1 and all(is_number(value) or value.strip().lower() in known for value in values):
            ignored = write_columns({"text": pair[0], "pair": pair[1]})
            choice = f"if so, set table.label={quote(name)}; if not, {ignored}"
            raise TaskError(f"{rows[0].where}: does column {name!r} say how similar the texts are? {choice}")
    return None


def _find_kind(rows: Sequence[Row], label: str, pair: tuple[str, str]) -> Kind:
    """Return what a label is: a score if most are numbers, else a name; lists, such as answers, are neither."""
    values = [value for value in (row.cells.get(label) for row in rows) if value not in (None, "")]
    if any(isinstance(value, (list, dict)) for value in values):
        return "pairs"
    names = [_label_name(value, pair) for value in values]
    if len(set(names)) < 2:
        raise TaskError(
            f"{rows[0].where}: all rows have the same label in column {label!r}, so there is nothing to compare; "
            + PLAIN
        )
    numbers = [name for name in names if is_number(name)]
    scores = [number for number in numbers if number not in (*SIMILAR, *DIFFERENT)]  # 0 and 1 are labels too
    return "scored" if len(scores) > len(names) - len(numbers) else "labeled"


def _label_name(label: Any, pair: tuple[str, str]) -> str:
    """Return a label as a name in lower case: 1.0 is "1", and the hub's numbers have the names they stand for."""
    spelled = str(label).strip().lower()
    spelled = spelled.removesuffix(".0") if is_number(spelled) else spelled
    return ENTAILMENT.get((pair[0].lower(), pair[1].lower()), {}).get(spelled, spelled)


class Pairs(Table):
    """The rows of each split; a folder of raw text is a training split, one of SemEval's files a dev and test split."""

    def __init__(self, config: FinetuneConfig, known: Known) -> None:
        self._notes: dict[str, Notes] = defaultdict(Notes)  # of each file
        # Raw text takes a while, and each split reads the training file.
        super().__init__(config, known, cache(lambda source: list(read_file(source, config, self._notes[source]))))
        self._config = config
        self.text_column: str | None = None  # of raw text in a table

    def learn(self, rows: Sequence[Row]) -> None:
        super().learn(rows)
        source = self.find("train")
        if source and is_raw_text(rows[0]):
            self.text_column, self._names = _text_columns(source, self._config.table.text)

    def find(self, split: Split) -> str | None:
        found, folder = super().find(split), Path(self._data or "-").expanduser()
        if found or not folder.is_dir():
            return found
        is_split = split != "train" if _sts_files(folder) else split == "train" and self._is_text(folder)
        return str(folder) if is_split else None

    def read(self, split: Split, notes: Notes) -> list[Row]:
        rows = super().read(split, notes)
        notes.counts.update(self._notes[self.find(split) or ""].counts)
        return rows

    def _held_out(self, rows: Sequence[Row]) -> frozenset[bytes]:
        """Hold out none of the passages that are paired with themselves, if there are others."""
        others = [row for row in rows if not is_raw_text(row) or row.cells[COLUMNS[0]] != row.cells[COLUMNS[1]]]
        if is_raw_text(rows[0]) and len(set(map(self._spelled, rows))) < 2:
            raise TaskError(f"{rows[0].where}: too short to hold out a part of it; add text, or set dev_file=FILE")
        return super()._held_out(others if len(set(map(self._spelled, others))) > 1 else rows)

    def _is_text(self, folder: Path) -> bool:
        """Return whether all of a folder is raw text, rather than the files of several splits."""
        others = (Table.find(self, split) for split in ("dev", "test"))
        return folder not in {Path(file).parent for file in others if file} and _is_raw(str(folder), self._config)


def read_file(source: str, config: FinetuneConfig, notes: Notes) -> Iterator[Row]:
    """Read the rows of a table, SQuAD, SemEval's STS, or pairs of raw text."""
    path = Path(source).expanduser()
    if files := _sts_files(path):
        return chain.from_iterable(map(_read_sts, files))
    if (
        path.is_file()
        and ".json" in path.suffixes[-2:]
        and SQUAD.match(next(read_chunks(Source(source, "jsonl")), b""))
    ):
        return _read_squad(source)
    if source != "-" and _is_raw(source, config):  # of standard input, lines of JSON are read, once
        return islice(read_pairs(source, config.table.text, config.similarity.text_pairs, notes), MOST)
    return read_rows(source)


def _is_raw(source: str, config: FinetuneConfig) -> bool:
    """Return whether a source is text, or a table with a column of text, but none of pairs.

    A single column of text is set by table.text, asked for by similarity.text_pairs, or has a usual name.
    """
    if any(found.format == "text" for found in find_sources([source])[0]):
        return True
    rows, settings, asked = list(islice(read_rows(source), SAMPLE)), config.table, config.similarity.text_pairs
    names = column_names(rows, {})
    if settings.pair or (_find_pair(rows, settings) and not (asked and settings.text in names)):
        return False
    return bool(names and (settings.text or asked or len(names) == 1 or usual_column(names, TEXT_COLUMNS)))


def _text_columns(source: str, column: str | None) -> tuple[str | None, list[str]]:
    """Return the column that is read as raw text, None for text that is no table, and all columns."""
    if any(found.format == "text" for found in find_sources([source])[0]):
        return None, []
    rows = list(islice(read_rows(source), ROWS))
    return find_column(longest(row.cells for row in rows), column, rows[0].where), column_names(rows, {})


def is_raw_text(row: Row) -> bool:
    """Return whether a row is a pair of passages that was made of raw text."""
    return tuple(row.cells) == COLUMNS


def _sts_files(path: Path) -> list[Path]:
    """Return the files of SemEval's STS in a folder, or the file itself if it is one."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return [file for file in files if STS.fullmatch(file.name)]


def _read_sts(path: Path) -> Iterator[Row]:
    """Read a file of SemEval's STS: a score, which may be missing, and two sentences, without a header."""
    year = path.name.partition(".")[0]
    for number, line in enumerate(read_lines(str(path)), 1):
        cells = line.split("\t")
        if len(cells) != 3:
            raise TaskError(f"{path} line {number}: {len(cells)} fields; expected a score and two sentences")
        named = dict(zip(("score", "sentence1", "sentence2"), cells, strict=True))
        yield Row(f"{path} line {number}", named | {"year": year})


def _read_squad(source: str) -> Iterator[Row]:
    for question in read_questions(source):
        cells = {"id": question.id, "question": question.question, "context": question.context}
        yield Row(f"{source} question {question.id}", cells)
