"""Pairs of similar texts from raw text without labels."""

from collections.abc import Iterator
from itertools import pairwise

from electra.config.tasks import TextPairs
from electra.data.reading.records import Row
from electra.data.reading.sentences import sentence_starts
from electra.data.reading.sources import find_sources
from electra.data.reading.text import read_documents
from electra.data.settings import Reading
from electra.errors import TaskError
from electra.tasks.base import Notes

SHORTEST, LONGEST = 20, 250  # characters of a passage; sentences are joined until it has this many
TITLE = 80  # most characters of a title
SECTION = 32  # passages of a document that are held out together; the last section may have one more
MOST = 250_000  # pairs
COLUMNS = ("text", "like", "section")  # of the pairs, as a table of them would have


def read_pairs(source: str, column: str | None, kind: TextPairs | None, notes: Notes) -> Iterator[Row]:
    """Read documents, and yield pairs of one kind: a passage and the next, a title and its text, a passage twice.

    By default, all pairs of the first two kinds, and passages without a neighbor twice. `column` is that of a table.
    Short passages are left out and noted, except where they are all of a row: each is a text of its own.
    """
    rows = all(found.format != "text" for found in find_sources([source])[0])
    text, documents, found = "", 0, 0
    for part in read_documents([source], Reading(column=column)):
        text = part.text if part.first else f"{text}\n{part.text}"
        if part.last:
            documents += 1
            for pair in _pairs(text, f"{source} document {documents}", kind, rows, notes):
                found += 1
                yield pair
    if not found:
        advice = "use another similarity.text_pairs" if kind else f"passages have at least {SHORTEST} characters"
        raise TaskError(f"{source}: no pairs of {kind or 'passages'}; {advice}")


def _pairs(text: str, where: str, kind: TextPairs | None, is_row: bool, notes: Notes) -> Iterator[Row]:
    first, _, rest = text.strip().partition("\n")
    title = first.strip().strip("#= ")
    titled = 0 < len(title) <= TITLE and title[-1] not in ".!?…。！？,;:" and bool(rest.strip())
    found = split_passages(rest if titled else text)
    passages = [passage for passage in found if len(passage) >= SHORTEST]
    if is_row and found and not passages:
        passages = found = [" ".join(found)]
    notes.add(f"passages of fewer than {SHORTEST} characters, left out", len(found) - len(passages))
    sections = [passages[start : start + SECTION] for start in range(0, len(passages), SECTION)]
    if len(passages) > SECTION and len(sections[-1]) == 1:
        sections[-2:] = [sections[-2] + sections[-1]]  # a passage alone would have no neighbor
    for number, section in enumerate(sections):
        pairs: list[tuple[str, str]] = []
        if kind in ("titles", None) and titled and number == 0:
            pairs.append((title, section[0]))
        if kind in ("neighbors", None):
            pairs += pairwise(section)
        if kind == "dropout" or (kind is None and not pairs):
            pairs += zip(section, section, strict=True)
        for pair in pairs:
            yield Row(where, dict(zip(COLUMNS, (*pair, f"{where} {number}"), strict=True)))


def split_passages(text: str) -> list[str]:
    """Split a text into passages: sentences of one paragraph, spaced as they are there, joined while they are short."""
    passages: list[str] = []
    for paragraph in text.split("\n"):
        start = end = 0
        for stop in (*sentence_starts(paragraph), len(paragraph)):
            if start < end and len(paragraph[start:stop].strip()) > LONGEST:
                passages.append(paragraph[start:end].strip())
                start = end
            end = stop
        passages.append(paragraph[start:].strip())
    return list(filter(None, passages))


def halves(text: str) -> tuple[str, str]:
    """Split a text in the middle: between words, or between characters where it has no spaces."""
    parts, space = (words, " ") if len(words := text.split()) > 1 else (list(text), "")
    middle = (len(parts) + 1) // 2
    return space.join(parts[:middle]), space.join(parts[middle:])
