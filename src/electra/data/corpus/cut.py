"""Cut documents into sequences of fixed length.

`sentences` keeps all text and begins sequences where sentences begin, `packed` keeps all text and repeats none, `paper`
follows the original code. All take documents in order, with the number of tokens in each sentence; a document may come
in several parts.
"""

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from electra.data.settings import Cut

Tokens = npt.NDArray[np.unsignedinteger[Any]]
Counts = npt.NDArray[np.int64]

SHORTEST_PIECE = 8  # tokens; a longer document is not started in less space at the end of a row


@dataclass(frozen=True)
class Frame:
    """The length of a sequence, its dtype and the special ids around its pieces."""

    length: int
    cls_id: int
    sep_id: int
    pad_id: int
    dtype: np.dtype[Any]

    def empty_row(self) -> Tokens:
        """Return a row of padding."""
        return np.full(self.length, self.pad_id, self.dtype)


class Row(NamedTuple):
    """One sequence: its ids, the number of text tokens, and the offsets at which documents begin."""

    ids: Tokens
    tokens: int
    starts: tuple[int, ...]


class Cutter(ABC):
    """Makes rows of documents."""

    divides_lines = False  # whether a line may have several sentences

    def __init__(self, frame: Frame, random: Random) -> None:
        self.frame = frame
        self.random = random

    @abstractmethod
    def add(self, ids: Tokens, sentence_tokens: Counts, first: bool = True, last: bool = True) -> Iterator[Row]:
        """Yield the rows that a document, or a part of one, completes."""

    @abstractmethod
    def finish(self) -> Iterator[Row]:
        """Yield what is left."""


class PackedCut(Cutter):
    """Rows of one or more pieces `[CLS] piece [SEP]`, each from one document; every token is kept."""

    def __init__(self, frame: Frame, random: Random) -> None:
        super().__init__(frame, random)
        self._begin_row()

    def _begin_row(self) -> None:
        self.row = np.empty(self.frame.length, self.frame.dtype)
        self.used = 0
        self.tokens = 0
        self.starts: list[int] = []

    def add(self, ids: Tokens, sentence_tokens: Counts, first: bool = True, last: bool = True) -> Iterator[Row]:
        sentences = np.cumsum(sentence_tokens).tolist()
        place, total = 0, len(ids)
        while place < total:
            room = self.frame.length - self.used - 2
            if room < min(total - place, SHORTEST_PIECE):
                yield from self.finish()
                continue
            if first:
                self.starts.append(self.used)
                first = False
            count = min(room, total - place)
            end = self.used + 1 + count
            self.row[self.used] = self.frame.cls_id
            self.row[self.used + 1 : end] = ids[place : place + count]
            self.row[end] = self.frame.sep_id
            place = self._next_place(place, place + count, sentences)
            self.used = end + 1
            self.tokens += count

    def _next_place(self, start: int, end: int, sentences: Sequence[int]) -> int:
        """Return where the piece after one from `start` to `end` begins, in a document whose sentences end at these."""
        return end

    def finish(self) -> Iterator[Row]:
        if self.used:
            self.row[self.used :] = self.frame.pad_id
            yield Row(self.row, self.tokens, tuple(self.starts))
            self._begin_row()


class SentenceCut(PackedCut):
    """Rows that begin with a sentence: one that was cut off at the end of a row is repeated in the next.

    Only the rest of a sentence that is longer than a row begins elsewhere.
    """

    divides_lines = True

    def _next_place(self, start: int, end: int, sentences: Sequence[int]) -> int:
        ended = bisect_right(sentences, end)  # sentences of the document up to here
        whole = sentences[ended - 1] if ended else 0
        if whole > start:
            return whole
        return start if self.used else end  # `used`: the next row has more room for this sentence


class PaperCut(Cutter):
    """The original code's examples `[CLS] A [SEP] B [SEP]`: a line is a sentence, and overflowing text is dropped."""

    def __init__(self, frame: Frame, random: Random) -> None:
        super().__init__(frame, random)
        self.target = frame.length  # tokens after which an example is made; an example may be longer
        self.sentences: list[Tokens] = []
        self.size = 0
        self.begins = False

    def add(self, ids: Tokens, sentence_tokens: Counts, first: bool = True, last: bool = True) -> Iterator[Row]:
        self.begins = self.begins or first
        place = 0
        for size in sentence_tokens.tolist():
            self.sentences.append(ids[place : place + size])
            self.size += size
            place += size
            if self.size >= self.target:
                yield self._example()
        if last:
            yield from self.finish()

    def finish(self) -> Iterator[Row]:
        if self.size:
            yield self._example()
        self.sentences, self.begins = [], False

    def _example(self) -> Row:
        a, b = self._segments()
        self.sentences, self.size = [], 0
        short = self.random.random() < 0.05
        self.target = self.random.randint(5, self.frame.length) if short else self.frame.length
        starts, self.begins = ((0,) if self.begins else ()), False
        row = self.frame.empty_row()
        framed = [self.frame.cls_id, *a, self.frame.sep_id, *b, *([self.frame.sep_id] if b else [])]
        row[: len(framed)] = framed
        return Row(row, len(a) + len(b), starts)

    def _segments(self) -> tuple[list[int], list[int]]:
        single = self.random.random() < 0.1
        target_a = self.size + 1 if single else (self.target - 3) // 2
        a: list[int] = []
        b: list[int] = []
        for sentence in self.sentences:
            fits = not a or len(a) + len(sentence) < target_a
            if fits or (not b and len(a) < target_a and self.random.random() < 0.5):
                a += sentence.tolist()
            else:
                b += sentence.tolist()
        a = a[: self.frame.length - 2]
        return a, b[: max(0, self.frame.length - len(a) - 3)]


CUTS: dict[Cut, type[Cutter]] = {"sentences": SentenceCut, "packed": PackedCut, "paper": PaperCut}
