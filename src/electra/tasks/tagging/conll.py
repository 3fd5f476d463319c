"""Tagging from CoNLL columns: one word per line with its tags, and a blank line after each sentence."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from electra.config.finetune import FinetuneConfig
from electra.config.tasks import TaggingConfig
from electra.data.reading.records import read_lines
from electra.data.reading.sources import find_sources
from electra.errors import TaskError
from electra.tasks.base import Known, Notes, Split, task_folder
from electra.tasks.lines import read_inputs
from electra.tasks.table.columns import split_words
from electra.tasks.tagging.spans import TAG, marks_spans
from electra.tasks.tagging.task import Sentence, TaggingTask, learn_tags

TASKS = {  # names of their folders
    "chunking": ("chunking", "chunk", "conll2000", "conll-2000"),
    "ner": ("ner", "conll2003", "conll-2003"),
    "pos": ("pos",),
}
STEMS: dict[Split, tuple[str, ...]] = {
    "train": ("train",),
    "dev": ("dev", "valid", "validation", "testa", "test"),  # CoNLL-2000 has no dev set; its test set is used instead
    "test": ("test", "testb"),
}
DOCUMENT = "-DOCSTART-"
LOOKED_AT = 100  # lines of a file, to find out whether they are words or sentences
UNIVERSAL = ".conllu"
NOT_A_WORD = re.compile(r"#.*|\d+[-.]\d+\t.*")  # CoNLL-U: comments, and multiword tokens, whose parts follow


class ConllTask(TaggingTask):
    """A tagging task with one word per line; `pos` scores single tags, the others spans."""

    def __init__(self, name: str, config: FinetuneConfig, known: Known) -> None:
        self.name, plain = name, name == "pos"
        self._data, self._file, self._settings = config.data, config.file, config.tagging
        super().__init__(config.tagging, known or self._learn(plain), plain)
        if not plain and not marks_spans(self.labels):
            found = f"found {', '.join(self.labels[:4])} …; set tagging.tag_column, or task=pos to score single tags"
            raise TaskError(f"the tags of {name} do not mark spans, as B-PER does; {found}")

    def read(self, split: Split, notes: Notes) -> list[Sentence]:
        path = self._path(split)
        sentences = list(read_sentences(read_lines(str(path)), str(path), self._settings))
        if not sentences:
            raise TaskError(f"{path} has no sentences")
        if split == "dev" and path.stem == "test":
            notes.add("sentences of the test file, because there is no dev file", len(sentences))
        return sentences

    def inputs(self, source: str, notes: Notes) -> Iterator[Sentence]:
        """Read words in columns, as in the training file, a sentence per line, or a table with a column `text`.

        Words are separated by spaces. A .tsv file has words in columns.
        """
        if find_sources([source])[0][0].format not in ("text", "tsv"):
            for row in read_inputs(source, ["text"], {"words": "text", "tokens": "text"}):
                yield Sentence(split_words(row.cells["text"], row.where), where=row.where)
            return
        width = self._known.get("width")  # unknown to models of earlier versions
        lines = iter(read_lines(source))
        start = list(islice(lines, LOOKED_AT))
        lines = chain(start, lines)
        words = [cells for _, cells in _lines(start, source) if cells]
        if width is None or _is_universal(source) or self._has_columns(words, width):
            yield from read_sentences(lines, source, self._settings, tagged=False, width=width)
            return
        for line in filter(str.strip, lines):
            notes.add("lines were read as sentences, with words separated by spaces")
            yield self.example([line])

    def _has_columns(self, lines: Sequence[Sequence[str]], width: int) -> bool:
        """Return whether lines are words, alone or with their tags; a short sentence may have as many words."""
        column = self._settings.tag_column or width
        tags = [tag for cells in lines if len(cells) == width for tag in cells[column - 1 : column]]
        known = [tag for tag in tags if tag in self.labels or (not self._plain and TAG.fullmatch(tag))]
        return all(len(cells) in (1, width) for cells in lines) and bool(known or not tags)

    def _learn(self, plain: bool) -> dict[str, Any]:
        path = str(self._path("train"))
        sentences = self.read("train", Notes())
        width = next(len(cells) for _, cells in _lines(read_lines(path), path) if cells)
        return {**learn_tags(sentences, self._settings, plain), "width": width}

    def _path(self, split: Split) -> Path:
        folder = task_folder(self._data, TASKS[self.name])
        named = self._file(split)
        if named and (folder / named).is_file():  # also an absolute path
            return folder / named
        wanted = [named] if named else [f"{stem}.*" for stem in STEMS[split]]
        found = (path for pattern in wanted for path in sorted(folder.glob(pattern)))
        if not named and (path := next(found, None)):
            return path
        there = ", ".join(sorted(entry.name for entry in folder.iterdir() if entry.is_file())) or "no file"
        raise TaskError(f"no {wanted[0]} in {folder}; found {there}; name it with {split}_file=FILE")


class WordColumns(NamedTuple):
    """The columns of a line; `tag` is None if tags are not read."""

    width: int
    word: int
    tag: int | None


def read_sentences(
    lines: Iterable[str], name: str, settings: TaggingConfig, tagged: bool = True, width: int | None = None
) -> Iterator[Sentence]:
    """Read sentences, with or without their tags; every line must have as many columns as the first.

    With the `width` of the training file, lines must have that many columns or only the word.
    """
    columns: WordColumns | None = None
    words: list[str] = []
    tags: list[str] = []
    start = ""
    for where, cells in _lines(chain(lines, [""]), name):
        if not cells:
            if words:
                yield Sentence(tuple(words), tuple(tags) if tagged else None, start)
            words, tags = [], []
            continue
        found = f"{where}: {len(cells)} columns"
        if width and len(cells) not in (1, width):
            advice = "write one word per line, and a blank line after each sentence"
            raise TaskError(f"{found}, but the training file has {width}; {advice}")
        columns = columns or _find_columns(len(cells), settings, _is_universal(name), tagged, where)
        if len(cells) != columns.width:
            raise TaskError(f"{found}, but the first line has {columns.width}; every word needs a tag")
        start = start if words else where
        words.append(cells[columns.word])
        if columns.tag is not None:
            tags.append(cells[columns.tag])


def _lines(lines: Iterable[str], name: str) -> Iterator[tuple[str, list[str]]]:
    """Return place and columns of each line that is a word or blank; a blank line has no columns."""
    universal = _is_universal(name)
    for number, line in enumerate(lines, 1):
        if not line.startswith(DOCUMENT) and not (universal and NOT_A_WORD.fullmatch(line)):
            yield f"{name} line {number}", line.split("\t") if line.strip() and "\t" in line else line.split()


def _is_universal(name: str) -> bool:
    return UNIVERSAL in Path(name).suffixes


def _find_columns(width: int, settings: TaggingConfig, universal: bool, tagged: bool, where: str) -> WordColumns:
    """Return the columns of a file, given its first line."""
    word = settings.word_column or (2 if universal else 1)
    tag = settings.tag_column or (4 if universal else width)
    for key, column in [("word", word), *([("tag", tag)] if tagged else [])]:
        if column > width:
            raise TaskError(f"{where}: tagging.{key}_column is {column}, but the line has {width}")
    if tagged and tag == word:
        raise TaskError(f"{where}: column {word} would be both word and tag; add tags, or set tagging.tag_column")
    return WordColumns(width, word - 1, tag - 1 if tagged else None)
