"""The training order: which sequence is at which position of an endless, shuffled stream.

A sequence is computed from its position by integer arithmetic, without any state, so resuming at any step is immediate.
The same expressions work for numpy arrays and torch tensors, with exactly the same results.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.errors import DataError

Integers = Any  # an int64 numpy array or torch tensor

TURN = 1 << 16  # period of a mixture's schedule, and so the precision of weights
MIXING_BITS = 20  # two rounds divide the correlation of neighbors by the grid's height; repeat down to 2**-20
_WORD = (1 << 32) - 1
_GOLDEN = 0x9E3779B9


@dataclass(frozen=True)
class Order:
    """The stream as a function of the position; arrays have one entry per slot of a turn or per source."""

    source: Integers  # (slots,) source of a slot
    earlier: Integers  # (slots,) earlier draws from that source in the turn
    quota: Integers  # (sources,) draws per turn
    first: Integers  # (sources,) first row in the concatenation of all sources
    size: Integers  # (sources,) number of rows
    height: Integers  # (sources,) with `width`: the grid on which rows are shuffled
    width: Integers
    key: Integers  # (2, sources) keys of the shuffle
    spare: int  # maximum number of grid cells without a row
    rounds: int  # of the Feistel network

    def rows(self, positions: Integers) -> Integers:
        """Return the rows at these positions, as indices into the concatenation of all sources."""
        slot = positions % len(self.source)
        source = self.source[slot]
        draw = positions // len(self.source) * self.quota[source] + self.earlier[slot]
        size = self.size[source]
        return self.first[source] + self._shuffle(draw % size, draw // size, source)

    def map(self, convert: Callable[[Integers], Integers]) -> "Order":
        """Return the same order with converted arrays, for example tensors on a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Order(**{name: value if isinstance(value, int) else convert(value) for name, value in values.items()})

    def _shuffle(self, index: Integers, epoch: Integers, source: Integers) -> Integers:
        """Permute the indices of a source, differently in each epoch.

        The grid's cells are permuted; a cell beyond the last row is permuted again until it falls on a row, which gives
        a permutation of the rows. All cells in between are spare ones, so `spare` repetitions are always enough.
        """
        size, height, width = self.size[source], self.height[source], self.width[source]
        base = _mix((epoch & _WORD) ^ self.key[0][source]) + self.key[1][source]
        keys = [_mix((base + turn * _GOLDEN) & _WORD) for turn in range(self.rounds)]
        cell = _permute(index, height, width, keys)
        for _ in range(self.spare):
            outside = cell >= size
            # Stopping early saves most of the work on the host; on a device it would force a synchronization.
            if isinstance(outside, np.ndarray) and not outside.any():
                break
            cell = cell + (_permute(cell, height, width, keys) - cell) * outside
        return cell


def make_order(sizes: Sequence[int], weights: Sequence[float] | None, seed: int) -> Order:
    """Return the order of sources of these sizes, mixed by weights or, if None, shuffled as one pool."""
    if weights is None:
        sizes, weights = [sum(sizes)], [1.0]
    if not sizes or min(sizes) < 1:
        raise DataError("a corpus has no sequences; remove it or build it again")
    quota = _quotas(weights) if len(sizes) > 1 else np.ones(1, np.int64)
    source, earlier = _schedule(quota)
    grids = np.array([_grid(size) for size in sizes], np.int64)
    size = np.array(sizes, np.int64)
    digests = [blake2b(f"order {seed} {number}".encode(), digest_size=8).digest() for number in range(len(sizes))]
    return Order(
        source=source,
        earlier=earlier,
        quota=quota,
        first=np.cumsum(size) - size,
        size=size,
        height=grids[:, 0],
        width=grids[:, 1],
        key=np.stack([np.frombuffer(digest, "<u4") for digest in digests], axis=1).astype(np.int64),
        spare=int((grids.prod(axis=1) - size).max()),
        rounds=max(6, 2 * math.ceil(MIXING_BITS / math.log2(max(2, grids[:, 0].min())))),
    )


def _mix(word: Integers) -> Integers:
    """Scramble 32-bit words; all products are below 2**63, so that integers never overflow."""
    word = (word ^ (word >> 16)) * 0x45D9F3B & _WORD
    word = (word ^ (word >> 16)) * 0x45D9F3B & _WORD
    return word ^ (word >> 16)


def _permute(cell: Integers, height: Integers, width: Integers, keys: Sequence[Integers]) -> Integers:
    """Permute the cells of a grid with a Feistel network: line and column shift each other alternately."""
    line, column = cell // width, cell % width
    for turn, key in enumerate(keys):
        if turn % 2:
            line = (line + (_mix(column ^ key) * height >> 32)) % height
        else:
            column = (column + (_mix(line ^ key) * width >> 32)) % width
    return line * width + column


def _grid(size: int) -> tuple[int, int]:
    """Return the height and width of the nearly square grid of at least `size` cells with the fewest spare ones."""
    root = math.isqrt(size - 1) + 1
    heights = np.arange(root, max(min(root, 2), root // 2) - 1, -1)  # of equal grids, the squarest comes first
    widths = -(-size // heights)
    best = int(np.argmin(heights * widths))
    return int(heights[best]), int(widths[best])


def _quotas(weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """Divide the slots of a turn by weight with the largest remainder method."""
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise DataError(f"weights must be positive numbers; found {list(weights)}")
    exact = np.array(weights) / math.fsum(weights) * TURN
    quota = np.floor(exact).astype(np.int64)
    quota[np.argsort(quota - exact, kind="stable")[: TURN - quota.sum()]] += 1
    if quota.min() < 1:
        raise DataError(f"a corpus gets less than one sequence in {TURN:,}; raise its weight in {list(weights)}")
    return quota


def _schedule(quota: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Spread the draws of each source evenly over the turn, so that every batch has the same mixture."""
    source = np.repeat(np.arange(len(quota)), quota)
    earlier = np.concatenate([np.arange(count) for count in quota])
    spread = np.argsort((earlier + 0.5) / quota[source], kind="stable")
    return source[spread], earlier[spread]
