"""The order of training: which sequence stands at which position of an endless, shuffled stream.

A position leads to its sequence by integer arithmetic alone, with nothing stored or counted on the way, so any step is
as near as the first. The same expressions run on numpy arrays and on torch tensors: host and device agree exactly.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.errors import DataError

Integers = Any  # an int64 array of numpy or tensor of torch

TURN = 1 << 16  # positions after which a mixture's schedule repeats; weights are exact to one part in this many
MIXING_BITS = 20  # two rounds of shuffling divide what neighbours keep in common by the grid's height: go on to 2**-20
_WORD = (1 << 32) - 1
_GOLDEN = 0x9E3779B9


@dataclass(frozen=True)
class Order:
    """The stream as a function of the position; the arrays have an entry per slot of a turn or per source."""

    source: Integers  # (slots,) the source that a slot draws from
    earlier: Integers  # (slots,) how often the turn has drawn from that source before the slot
    quota: Integers  # (sources,) draws from the source in one turn
    first: Integers  # (sources,) its first row when all sources are laid end to end
    size: Integers  # (sources,) its number of rows
    height: Integers  # (sources,) with `width`: the grid that its rows are shuffled on
    width: Integers
    key: Integers  # (2, sources) what makes its shuffles its own
    spare: int  # the most cells that a grid has beyond its source's rows
    rounds: int  # of the Feistel network

    def rows(self, positions: Integers) -> Integers:
        """Give the rows, counted over all sources laid end to end, that stand at these positions."""
        slot = positions % len(self.source)
        source = self.source[slot]
        draw = positions // len(self.source) * self.quota[source] + self.earlier[slot]
        size = self.size[source]
        return self.first[source] + self._shuffle(draw % size, draw // size, source)

    def map(self, convert: Callable[[Integers], Integers]) -> "Order":
        """Give the same order with its arrays converted, for instance to tensors of a device."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return Order(**{name: value if isinstance(value, int) else convert(value) for name, value in values.items()})

    def _shuffle(self, index: Integers, epoch: Integers, source: Integers) -> Integers:
        """Permute the indices of a source, each epoch anew.

        The permutation is of the grid's cells; a cell beyond the last row is permuted again until it falls on a row,
        which keeps it a permutation of the rows. That leads through spare cells only: `spare` times are always enough.
        """
        size, height, width = self.size[source], self.height[source], self.width[source]
        base = _mix((epoch & _WORD) ^ self.key[0][source]) + self.key[1][source]
        keys = [_mix((base + turn * _GOLDEN) & _WORD) for turn in range(self.rounds)]
        cell = _permute(index, height, width, keys)
        for _ in range(self.spare):
            outside = cell >= size
            # On the host an early end saves nearly all of the work; a device would have to wait for the answer.
            if isinstance(outside, np.ndarray) and not outside.any():
                break
            cell = cell + (_permute(cell, height, width, keys) - cell) * outside
        return cell


def make_order(sizes: Sequence[int], weights: Sequence[float] | None, seed: int) -> Order:
    """Order sources of these sizes: weights give each its own stream and share, None shuffles all as one."""
    if weights is None:
        sizes, weights = [sum(sizes)], [1.0]
    if not sizes or min(sizes) < 1:
        raise DataError("a corpus without sequences cannot be shuffled")
    quota = _quotas(weights) if len(sizes) > 1 else np.ones(1, np.int64)
    source, earlier = _schedule(quota)
    grids = np.array([_grid(size) for size in sizes], np.int64)
    size = np.array(sizes, np.int64)
    return Order(
        source=source,
        earlier=earlier,
        quota=quota,
        first=np.cumsum(size) - size,
        size=size,
        height=grids[:, 0],
        width=grids[:, 1],
        key=np.array([_keys(seed, number) for number in range(len(sizes))], np.int64).T.copy(),
        spare=int((grids.prod(axis=1) - size).max()),
        rounds=max(6, 2 * math.ceil(MIXING_BITS / math.log2(max(2, grids[:, 0].min())))),
    )


def _mix(word: Integers) -> Integers:
    """Scramble 32-bit words; all products stay below 2**63, so nothing depends on how integers overflow."""
    word = (word ^ (word >> 16)) * 0x45D9F3B & _WORD
    word = (word ^ (word >> 16)) * 0x45D9F3B & _WORD
    return word ^ (word >> 16)


def _permute(cell: Integers, height: Integers, width: Integers, keys: Sequence[Integers]) -> Integers:
    """Permute the cells of a grid by a Feistel network: line and column shift each other in turn."""
    line, column = cell // width, cell % width
    for turn, key in enumerate(keys):
        if turn % 2:
            line = (line + (_mix(column ^ key) * height >> 32)) % height
        else:
            column = (column + (_mix(line ^ key) * width >> 32)) % width
    return line * width + column


def _grid(size: int) -> tuple[int, int]:
    """Find the nearly square grid that holds `size` cells with the fewest to spare."""
    root = math.isqrt(size - 1) + 1
    heights = np.arange(root, max(min(root, 2), root // 2) - 1, -1)  # of equal grids the squarest comes first
    widths = -(-size // heights)
    best = int(np.argmin(heights * widths))
    return int(heights[best]), int(widths[best])


def _keys(seed: int, number: int) -> list[int]:
    digest = blake2b(f"order {seed} {number}".encode(), digest_size=8).digest()
    return [int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")]


def _quotas(weights: Sequence[float]) -> npt.NDArray[np.int64]:
    """Share the slots of a turn by weight, the last ones by the largest remainders."""
    if not all(math.isfinite(weight) and weight > 0 for weight in weights):
        raise DataError(f"weights must be positive numbers, not {list(weights)}")
    exact = np.array(weights) / math.fsum(weights) * TURN
    quota = np.floor(exact).astype(np.int64)
    quota[np.argsort(quota - exact, kind="stable")[: TURN - quota.sum()]] += 1
    if quota.min() < 1:
        raise DataError(f"the weights {list(weights)} leave a corpus less than one sequence in {TURN:,}")
    return quota


def _schedule(quota: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Spread each source's draws evenly over the turn, so that every batch has the mixture."""
    source = np.repeat(np.arange(len(quota)), quota)
    earlier = np.concatenate([np.arange(count) for count in quota])
    spread = np.argsort((earlier + 0.5) / quota[source], kind="stable")
    return source[spread], earlier[spread]
