"""Decide which documents are kept and in which split, and report what was dropped."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from electra.data.corpus.clean import Keys, Seen, find_duplicates
from electra.data.corpus.encode import TokenBlock
from electra.data.corpus.shards import Split
from electra.data.settings import Cleaning

EXAMPLES = 3  # of dropped documents for each reason


@dataclass
class Dropped:
    """The documents dropped for one reason."""

    documents: int = 0
    characters: int = 0
    examples: list[str] = field(default_factory=list)


@dataclass
class Report:
    """Counts of what was read and dropped."""

    documents_read: int = 0
    characters_read: int = 0
    tokens_read: int = 0  # in kept documents; the paper's cut stores fewer
    unknown_tokens: int = 0  # [UNK] among `tokens_read`
    dropped: dict[str, Dropped] = field(default_factory=dict)

    def drop(self, reason: str, documents: int, characters: int, examples: list[str]) -> None:
        """Count dropped documents."""
        dropped = self.dropped.setdefault(reason, Dropped())
        dropped.documents += documents
        dropped.characters += characters
        dropped.examples += examples[: EXAMPLES - len(dropped.examples)]

    def add(self, other: "Report") -> None:
        """Add the counts of another report."""
        self.documents_read += other.documents_read
        self.characters_read += other.characters_read
        self.tokens_read += other.tokens_read
        self.unknown_tokens += other.unknown_tokens
        for reason, dropped in other.dropped.items():
            self.drop(reason, dropped.documents, dropped.characters, dropped.examples)


class Sieve:
    """Assigns each document, in reading order, to a split or drops it; the first passage decides for all of them."""

    def __init__(self, cleaning: Cleaning, heldout: float, folder: Path | None = None) -> None:
        self.cleaning = cleaning
        self.heldout_below = int(heldout * 2**64)
        self.seen = Seen(folder)
        self.fate: Split | None = None  # split of the current document, None if it is dropped
        self.reason = ""  # why the current document is dropped

    def sift(self, block: TokenBlock, report: Report) -> tuple[list[Split | None], Keys]:
        """Return the split of each passage (None if dropped) and the keys of the new documents."""
        fresh, keys = self._without_duplicates(block)
        fates: list[Split | None] = []
        for number, first in enumerate(block.first.tolist()):
            characters, tokens = int(block.characters[number]), int(block.tokens[number])
            if first:
                self.reason = block.faults[number] or ("" if fresh[number] else f"{self.cleaning.duplicates} duplicate")
                if not self.reason and not tokens and block.last[number]:
                    self.reason = "without tokens"
                # The split depends only on the text, so that it stays the same when the corpus grows.
                split: Split = "heldout" if int(block.digests[number]) < self.heldout_below else "train"
                self.fate = None if self.reason else split
                report.documents_read += 1
            report.characters_read += characters
            if self.reason:
                report.drop(self.reason, int(first), characters, [block.excerpts[number]] if first else [])
            else:
                report.tokens_read += tokens
                report.unknown_tokens += int(block.unknown_tokens[number])
            fates.append(self.fate)
        return fates, keys

    def _without_duplicates(self, block: TokenBlock) -> tuple[list[bool], Keys]:
        if self.cleaning.duplicates == "keep":
            return [True] * len(block.first), block.keys[:0]
        candidates = block.first & np.array([fault is None for fault in block.faults], np.bool_)
        fresh = np.ones(len(candidates), np.bool_)
        fresh[candidates] = ~find_duplicates(self.seen, block.keys[candidates])
        return fresh.tolist(), block.keys[candidates]
