"""Cut documents into sequences of fixed length: `packed` keeps all text, `paper` follows the original code.

Both cuts take documents in order, with the number of tokens in each line; a document may come in several parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

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


class PackedCut:
    """Rows of one or more pieces `[CLS] piece [SEP]`, each from one document; every token is kept."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._begin_row()

    def _begin_row(self) -> None:
        self.row = self.frame.empty_row()
        self.used = 0
        self.tokens = 0
        self.starts: list[int] = []

    def add(self, ids: Tokens, line_tokens: Counts, first: bool = True, last: bool = True) -> Iterator[Row]:
        """Fill the current and further rows with a document; its lines do not matter."""
        while len(ids):
            room = self.frame.length - self.used - 2
            if room < min(len(ids), SHORTEST_PIECE):
                yield from self.finish()
                continue
            if first:
                self.starts.append(self.used)
                first = False
            piece, ids = ids[:room], ids[room:]
            end = self.used + 1 + len(piece)
            self.row[self.used] = self.frame.cls_id
            self.row[self.used + 1 : end] = piece
            self.row[end] = self.frame.sep_id
            self.used = end + 1
            self.tokens += len(piece)

    def finish(self) -> Iterator[Row]:
        """Yield the current row, padded."""
        if self.used:
            yield Row(self.row, self.tokens, tuple(self.starts))
            self._begin_row()


class PaperCut:
    """The original code's examples `[CLS] A [SEP] B [SEP]`: a line is a sentence, and overflowing text is dropped."""

    def __init__(self, frame: Frame, random: Random) -> None:
        self.frame = frame
        self.random = random
        self.target = frame.length  # tokens after which an example is made; an example may be longer
        self.sentences: list[Tokens] = []
        self.size = 0
        self.begins = False

    def add(self, ids: Tokens, line_tokens: Counts, first: bool = True, last: bool = True) -> Iterator[Row]:
        """Collect sentences until the target is reached or the document ends."""
        self.begins = self.begins or first
        place = 0
        for size in line_tokens.tolist():
            self.sentences.append(ids[place : place + size])
            self.size += size
            place += size
            if self.size >= self.target:
                yield self._example()
        if last:
            yield from self.finish()

    def finish(self) -> Iterator[Row]:
        """Yield the rest of the document."""
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


Cutter = PackedCut | PaperCut
