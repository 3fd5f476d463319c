"""Batches of token sequences of different lengths, with little padding.

Shapes: B rows, L tokens.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from electra.model.packing import Packing, pack


class Limits(NamedTuple):
    """When a batch is full."""

    tokens: int  # including padding, to bound the memory
    padding: int  # padding tokens that take as long to compute as starting another batch


LIMITS = {"cpu": Limits(16_384, 32), "cuda": Limits(65_536, 8_192)}  # measured on a CPU; estimated for a GPU

ROW_STEP = 128  # tokens between two lengths of a packed row


class WindowBatch(NamedTuple):
    """Some windows, padded to the longest one."""

    windows: np.ndarray  # (B,) their indices
    ids: Tensor  # (B, L)
    attention: Tensor | None  # (B, L) 1 for tokens, 0 for padding; None if there is no padding
    packing: Packing | None = None  # into one row, where that is faster

    def run(self, compute: Callable[[Tensor, Tensor | None], Tensor]) -> Tensor:
        """Compute states or scores (B, L, …) of the tokens; `compute` takes ids and attention."""
        return compute(self.ids, self.attention) if self.packing is None else self.packing.run(compute, self.ids)

    def sums(self, states: Tensor) -> Tensor:
        """Return the sum of the states (B, L, H) of each window, in float32 (B, H)."""
        if self.attention is not None:
            states = states.masked_fill(self.attention[..., None] == 0, 0)
        return states.sum(1, dtype=torch.float32)


def batches(
    windows: Sequence[Sequence[int]], pad_id: int, device: torch.device, packs: bool = False
) -> Iterator[WindowBatch]:
    """Yield batches of windows of similar length, longest first; windows must not be empty.

    All ids are copied to the device at once and batches are cut out of them there, so the device never waits.
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
        shortest, filled = lengths[order[rows][-1]], int(lengths[order[rows]].sum())
        attention = None if shortest == longest else real.long()
        packing = None
        if packs and attention is not None:
            packing = pack(count[rows], longest, filled, -(-filled // ROW_STEP) * ROW_STEP)
        yield WindowBatch(order[rows], ids, attention, packing)
        at = rows.stop
