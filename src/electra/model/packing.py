"""Batches without padding: the tokens of all texts in one row, in which each text sees only itself.

Shapes: B texts, L tokens of the longest one, T tokens of the row.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Packing(NamedTuple):
    """Where the tokens of a row are in a padded batch (B, L)."""

    places: Tensor  # (T,) in the flattened batch; B · L for what fills up the row
    texts: Tensor  # (1, T) the number of each token's text; 0 for what fills up the row

    def run(self, compute: Callable[[Tensor, Tensor], Tensor], ids: Tensor) -> Tensor:
        """Compute a padded batch as one row: ids (B, L) to (B, L, …), zero where there is padding.

        `compute` takes ids and attention, both (1, T), and returns (1, T, …).
        """
        flat = F.pad(ids.flatten(), (0, 1))  # one more place, for what fills up the row
        row = compute(flat[self.places][None], self.texts)[0]
        padded = row.new_zeros(len(flat), *row.shape[1:]).index_copy(0, self.places, row)
        return padded[:-1].view(*ids.shape, *row.shape[1:])


def pack(lengths: Tensor, length: int, tokens: int, row: int) -> Packing:
    """Pack texts of these lengths (B,), `tokens` in all and padded to `length`, into a row of `row` tokens."""
    numbers = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=tokens)
    starts = lengths.cumsum(0) - lengths
    columns = torch.arange(tokens, device=lengths.device) - starts[numbers]
    filling = (0, row - tokens)
    places = F.pad(numbers * length + columns, filling, value=len(lengths) * length)
    return Packing(places, F.pad(numbers + 1, filling)[None])
