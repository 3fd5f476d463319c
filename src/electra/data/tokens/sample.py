"""A bounded, even sample of a stream of documents of unknown length."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from electra.data.mix import mix

SPACELESS = 20  # characters per space; text with more has few repeated words and is slow to train on
SPACELESS_COST = 10  # how often a character of such text counts
LONGEST_WORD = 1000  # characters; the time of the trainers grows with the square of a word's length
_BLOCK = 1 << 20  # characters read at a time
_UNICODE = 0x110000
_LAST_LEVEL = 63


class Sample:
    """A sample kept in files: all documents up to `max_characters`, beyond that every 2nd, every 4th, and so on.

    Text without spaces, such as Japanese, counts ten times, because the trainers need more memory for it.
    The file of a document depends on how many halvings it survives, so that halving the sample deletes one file.
    """

    def __init__(self, folder: Path, max_characters: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self.max_characters = max_characters
        self.documents = 0
        self.characters = 0
        self.level = 0  # documents of lower levels are dropped
        self._kept: Counter[int] = Counter()  # level: characters
        self._cost: Counter[int] = Counter()  # level: characters, times 10 for text without spaces
        self._streams: dict[int, IO[str]] = {}

    @property
    def kept_characters(self) -> int:
        """Return the size of the sample."""
        return self._kept.total()

    @property
    def files(self) -> list[Path]:
        """Return the files of the sample in order."""
        return [self._file(level) for level in sorted(self._kept)]

    def add(self, text: str) -> None:
        """Count a document, and keep it if it belongs to the sample."""
        level = _level(self.documents)
        self.documents += 1
        self.characters += len(text)
        if level < self.level:
            return
        if level not in self._streams:
            self._streams[level] = self._file(level).open("w", encoding="utf-8", newline="\n")
        self._streams[level].write(_with_short_words(text) + "\n")
        self._kept[level] += len(text)
        self._cost[level] += len(text) * (SPACELESS_COST if len(text) > SPACELESS * (1 + text.count(" ")) else 1)
        while self._cost.total() > self.max_characters:
            if self.level in self._streams:
                self._streams.pop(self.level).close()
                self._file(self.level).unlink()
                del self._kept[self.level], self._cost[self.level]
            self.level += 1

    def chosen(self, count: int) -> list[int]:
        """Return which of the next documents may be kept."""
        return [number for number in range(count) if _level(self.documents + number) >= self.level]

    def add_chosen(self, count: int, characters: int, texts: Mapping[int, str]) -> None:
        """Count documents, and keep some of those whose texts are given."""
        for number in range(count):
            if number in texts:
                self.add(texts[number])
                characters -= len(texts[number])
            else:
                self.documents += 1
        self.characters += characters

    def close(self) -> None:
        """Finish writing, before the sample is read."""
        for stream in self._streams.values():
            stream.close()

    def lines(self, stride: int = 1) -> Iterator[str]:
        """Yield one of every `stride` lines of the sample."""
        number = 0
        for file in self.files:
            with file.open(encoding="utf-8", newline="\n") as stream:
                for line in stream:
                    if number % stride == mix(number // stride) % stride:
                        yield line.rstrip("\n")
                    number += 1

    def count_characters(self, *, compatible: bool = False) -> Counter[str]:
        """Count the characters of the sample, after NFKC normalization if `compatible`."""
        counts = np.zeros(_UNICODE, np.int64)
        for file in self.files:
            with file.open(encoding="utf-8", newline="\n") as stream:
                while block := stream.read(_BLOCK):
                    text = unicodedata.normalize("NFKC", block) if compatible else block
                    counts += np.bincount(np.frombuffer(text.encode("utf-32-le"), np.uint32), minlength=_UNICODE)
        return Counter({chr(point): int(counts[point]) for point in np.flatnonzero(counts)})

    def _file(self, level: int) -> Path:
        return self.folder / f"level-{level:02}.txt"


def _with_short_words(text: str) -> str:
    """Return the text with a space after every 1000 characters without white space."""
    if max(map(len, text.split()), default=0) <= LONGEST_WORD:  # nearly always, and faster to find out
        return text
    return re.sub(rf"\S{{{LONGEST_WORD}}}(?=\S)", r"\g<0> ", text)


def _level(number: int) -> int:
    """Return how many halvings document `number` survives: of every two neighbors left, a hash decides which one stays.

    A fixed choice would be biased for text that alternates between two kinds. Document 0 always stays.
    """
    if number == 0:
        return _LAST_LEVEL
    level = 0
    while number > 1 and number & 1 == mix(number >> 1, level) & 1:
        number >>= 1
        level += 1
    return level
