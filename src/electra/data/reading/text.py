"""Read documents as a stream, in constant memory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from electra.data.reading.decode import Decoder
from electra.data.reading.records import Columns, read_texts
from electra.data.reading.sources import Source, find_sources, read_chunks
from electra.data.settings import Documents, Reading
from electra.errors import DataError

LINE_LIMIT = 1 << 16  # characters; a longer line is cut at white space to bound the memory
PASSAGE_LIMIT = 1 << 20  # characters; a longer document is split into passages
PARAGRAPH = 200  # characters; without blank lines, longer lines are documents and shorter ones are sentences


@dataclass
class Tally:
    """Counts of what was read so far."""

    sources: list[Source] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # duplicates, and files in folders that are not text
    bytes_read: int = 0  # as stored, before decompression
    invalid_places: int = 0  # with invalid UTF-8
    documents: Counter[str] = field(default_factory=Counter)  # number of sources by kind of document
    columns: Columns = field(default_factory=dict)  # text columns of tables

    @property
    def total_bytes(self) -> int | None:
        """Return the total size of all sources as stored, or None if one is unknown."""
        sizes = [source.size for source in self.sources]
        return None if None in sizes else sum(size for size in sizes if size)

    def count_bytes(self, size: int) -> None:
        """Count bytes that were read."""
        self.bytes_read += size

    def take(self) -> "Tally":
        """Return the counts since the last call; the columns are remembered."""
        taken = Tally([], [], self.bytes_read, self.invalid_places, self.documents, dict(self.columns))
        self.bytes_read, self.invalid_places, self.documents = 0, 0, Counter()
        return taken

    def add(self, taken: "Tally") -> None:
        """Add the counts of a part."""
        self.bytes_read += taken.bytes_read
        self.invalid_places += taken.invalid_places
        self.documents += taken.documents
        self.columns |= taken.columns


class Passage(NamedTuple):
    """A document, or a part of a long one."""

    text: str
    first: bool = True
    last: bool = True


def read_documents(
    names: Sequence[str | Path], reading: Reading | None = None, tally: Tally | None = None
) -> Iterator[Passage]:
    """Yield the documents of files, folders, globs, `-`, URLs or hub datasets in a fixed order."""
    reading = reading or Reading()
    tally = tally if tally is not None else Tally()
    tally.sources, tally.ignored = find_texts(names, reading)
    yield from read_sources(tally.sources, reading, tally)


def find_texts(names: Sequence[str | Path], reading: Reading) -> tuple[list[Source], list[str]]:
    """Return the sources in order, all of which can have the kind of documents asked for, and the ignored files."""
    sources, ignored = find_sources(names, reading.format)
    for source in sources:
        allowed = ("auto", "blank", "line", "file") if source.format == "text" else ("auto", "record")
        if reading.documents not in allowed:
            fault = f"documents={reading.documents} does not fit {source.format}"
            raise DataError(f"{source.name}: {fault}; choose {', '.join(allowed)}")
    if reading.column and all(source.format == "text" for source in sources):
        fault = f"column={reading.column}, but {sources[0].name} is read as text"
        raise DataError(f"{fault}; drop it, or set --format to csv, tsv, jsonl or parquet")
    return sources, ignored


def read_sources(sources: Iterable[Source], reading: Reading, tally: Tally) -> Iterator[Passage]:
    """Yield the documents of sources."""
    for source in sources:
        yield from _read_source(source, reading, tally)


def _read_source(source: Source, reading: Reading, tally: Tally) -> Iterator[Passage]:
    decoder = Decoder(source.name, reading.invalid)
    texts = decoder.decode(read_chunks(source, tally.count_bytes))
    if source.format == "text":
        start = next(texts)
        documents = _guess_documents(start) if reading.documents == "auto" else reading.documents
        yield from _gather(_cut_lines(chain([start], texts)), documents)
    else:
        documents = "record"
        for text in read_texts(source, reading.column, texts, tally.count_bytes, tally.columns):
            lines = decoder.mend(text).replace("\r\n", "\n").replace("\r", "\n")
            yield from _gather(_cut_lines([lines]), documents)
    tally.documents[documents] += 1
    tally.invalid_places += decoder.invalid_places


def _guess_documents(start: str) -> Documents:
    """Guess what a document is from a file's first megabyte; blank lines, if any, separate documents."""
    lines = [line.strip() for line in start.strip().split("\n")]
    if not all(lines):
        return "blank"
    return "line" if len(lines) > 1 and sum(map(len, lines)) / len(lines) >= PARAGRAPH else "file"


def _cut_lines(texts: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """Yield lines, long ones in pieces, and whether each piece ends its line."""
    rest = ""
    for text in texts:
        lines = (rest + text).split("\n")
        for number, line in enumerate(lines, 1):
            start = 0
            while len(line) - start > LINE_LIMIT:
                space = max(line.rfind(sign, start + 1, start + LINE_LIMIT) for sign in " \t\u3000")
                end = space if space > 0 else start + LINE_LIMIT
                yield line[start:end], False
                start = end
            rest = line[start:]
            if number < len(lines):
                yield rest, True
    yield rest, True


def _gather(lines: Iterable[tuple[str, bool]], documents: Documents) -> Iterator[Passage]:
    """Join lines into documents; yield long ones in passages."""
    held: list[str] = []
    size = 0
    first = True
    line_begins = True
    for line, line_ends in lines:
        blank = not line.strip()
        if not blank:
            held.append(line)
            size += len(line) + 1
        last = line_ends and (documents == "line" or (documents == "blank" and blank and line_begins))
        if last or size >= PASSAGE_LIMIT:
            if held or not first:
                yield Passage("\n".join(held), first, last)
            held, size, first = [], 0, last
        line_begins = line_ends
    if held or not first:
        yield Passage("\n".join(held), first, True)
