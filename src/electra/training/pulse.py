"""Heartbeats: each process increments a counter in a shared store, and one whose counter stops is gone."""

import threading
import time
from typing import Protocol

BEAT = 1.0  # seconds between two increments
PATIENCE = 5  # beats without an increment after which a process counts as gone


class Store(Protocol):
    """The numbers that all processes share."""

    def add(self, key: str, amount: int) -> int:
        """Add to a number and return it."""


class Pulse:
    """Increments the counter of this process in the background, and reads those of the others."""

    def __init__(self, store: Store, rank: int, ranks: int) -> None:
        self.store, self.rank, self.ranks = store, rank, ranks
        self.ended = threading.Event()
        threading.Thread(target=self._count, name="pulse", daemon=True).start()

    def stop(self) -> None:
        """Stop the heartbeat of this process."""
        self.ended.set()

    def lost(self) -> list[int]:
        """Return the ranks of the processes whose counters do not change within a few seconds."""
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
