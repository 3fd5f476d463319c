"""Token ids of many lengths as batches that are hardly padded.

Shapes: B rows, L tokens.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Limits(NamedTuple):
    """Where a batch ends."""

    tokens: int  # padding included, for the memory
    padding: int  # tokens whose work takes as long as starting another batch does


LIMITS = {"cpu": Limits(16_384, 64), "cuda": Limits(65_536, 8_192)}  # measured on a CPU; estimated for a GPU


class WindowBatch(NamedTuple):
    """Some windows, padded to the longest of them."""

    windows: np.ndarray  # (B,) their numbers
    ids: Tensor  # (B, L)
    attention: Tensor | None  # (B, L) is 1, and 0 for padding; None where there is none

    def sums(self, states: Tensor) -> Tensor:
        """Add up the states (B, L, H) of each window, in float32 (B, H)."""
        if self.attention is not None:
            states = states.masked_fill(self.attention[..., None] == 0, 0)
        return states.sum(1, dtype=torch.float32)


def batches(windows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Iterator[WindowBatch]:
    """Sort windows, none of them empty, into batches of like length, the longest first.

    The ids go to the device all at once, and batches are cut out of them there: nothing waits for the host.
    """
    lengths = np.fromiter(map(len, windows), np.int64, len(windows))
    order = np.argsort(-lengths, kind="stable")
    starts = np.cumsum(lengths) - lengths
    flat = np.fromiter(chain.from_iterable(windows), np.int64, int(lengths.sum()))
    tokens, first, count = (torch.from_numpy(part).to(device) for part in (flat, starts[order], lengths[order]))
    limits = LIMITS.get(device.type, LIMITS["cpu"])
    at = 0
    while at < len(order):
        longest = int(lengths[order[at]])
        fitting = lengths[order[at : at + max(1, limits.tokens // longest)]]
        rows = slice(at, at + int(np.searchsorted(np.cumsum(longest - fitting), limits.padding, "right")))
        place = torch.arange(longest, device=device)
        real = place < count[rows, None]
        ids = tokens[torch.where(real, first[rows, None] + place, 0)].where(real, pad_id)
        shortest = lengths[order[rows][-1]]
        yield WindowBatch(order[rows], ids, None if shortest == longest else real.long())
        at = rows.stop
