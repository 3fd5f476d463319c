"""Find out which process is gone: each one counts in a store that all can reach, and a dead one no longer does."""

import threading
import time
from typing import Protocol

BEAT = 1.0  # seconds between two counts
PATIENCE = 5  # beats without a count before a process is believed dead


class Store(Protocol):
    """The numbers that all processes share."""

    def add(self, key: str, amount: int) -> int:
        """Add to a number and return it."""


class Pulse:
    """Counts for this process in the background, and looks at the counts of the others."""

    def __init__(self, store: Store, rank: int, ranks: int) -> None:
        self.store, self.rank, self.ranks = store, rank, ranks
        self.ended = threading.Event()
        threading.Thread(target=self._count, name="pulse", daemon=True).start()

    def stop(self) -> None:
        """Stop counting."""
        self.ended.set()

    def lost(self) -> list[int]:
        """Return the ranks of the processes that are gone, after some seconds of looking."""
        try:
            before = self._counts()
            time.sleep(PATIENCE * BEAT)
            return [rank for rank, (then, now) in enumerate(zip(before, self._counts(), strict=True)) if then == now]
        except RuntimeError:
            return [0]  # the store is in the first process, unless torchrun holds it

    def _count(self) -> None:
        try:
            while not self.ended.wait(BEAT):
                self.store.add(f"pulse/{self.rank}", 1)
        except RuntimeError:
            return  # the store is gone

    def _counts(self) -> list[int]:
        return [self.store.add(f"pulse/{rank}", 0) for rank in range(self.ranks)]
