"""Training batches as a function of seed and step, the same for any number of ranks and any device."""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count, islice
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from electra.data.corpus.shards import Corpus, Ids, Split
from electra.data.feeding.batch import Batch, common_layout
from electra.data.feeding.order import Order, make_order
from electra.errors import DataError

BLOCK_ROWS = 4096  # sequences read at a time; many batches cost little more than one
BLOCKS_AHEAD = 2  # blocks read in advance
RESIDENT_SHARE = 8  # by default, a corpus may take 1/8 of the free GPU memory

Check = Callable[[Any], Any]  # returns the ids if they are in the vocabulary
Slots = npt.NDArray[np.int64]  # positions of a rank in the batch

# torch supports few operations on unsigned integers, so ids are moved as signed ones with the same bits, then widened.
_SIGNED = {2: torch.int16, 4: torch.int32}


def moved(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor on a device, without waiting for the copy where that is safe."""
    return tensor.to(device, non_blocking=is_queued(tensor.device, device))


def is_queued(source: torch.device, target: torch.device) -> bool:
    """Return whether a copy may end later: an Apple GPU, unlike CUDA, might read a source that is gone by then."""
    return "cuda" in (source.type, target.type)


class Loader:
    """An endless stream of the sequences of corpora, shuffled as one pool or mixed by weights.

    Every epoch is a new permutation; a batch may span two epochs. Each rank loads its slice of the batch. `resident`
    keeps the ids on the device; None decides by its free memory.
    """

    def __init__(
        self,
        corpora: Sequence[Corpus],
        *,
        batch_size: int,
        seed: int,
        split: Split = "train",
        weights: Sequence[float] | None = None,
        rank: int = 0,
        world_size: int = 1,
        device: torch.device | str = "cpu",
        resident: bool | None = None,
    ) -> None:
        if batch_size % world_size:
            raise DataError(f"a batch of {batch_size} sequences cannot be split evenly among {world_size} processes")
        if weights is not None and len(weights) != len(corpora):
            raise DataError(f"{len(weights)} weights for {len(corpora)} corpora; give one for each")
        self.layout = common_layout(corpora, split)
        shards = [corpus.shards(split) for corpus in corpora]
        sizes = [sum(map(len, parts)) for parts in shards]
        for corpus, size in zip(corpora, sizes, strict=True):
            if not size:
                raise DataError(f"{corpus.path} has no sequences in its {split} split")
        order = make_order(sizes, weights, seed)
        share = np.array_split(np.arange(batch_size), world_size)[rank]
        device = torch.device(device)
        every = [shard for parts in shards for shard in parts]
        if resident is None and device.type == "cuda":
            resident = sum(shard.nbytes for shard in every) * RESIDENT_SHARE <= torch.cuda.mem_get_info(device)[0]
        self._block_steps = max(1, BLOCK_ROWS // len(share))
        known = partial(_known, corpora)
        self._ids = (_Resident if resident else _Mapped)(every, order, batch_size, share, device, known)

    def batch(self, step: int) -> Batch[Tensor]:
        """Return this rank's slice of a step's batch."""
        return self.layout.batch(self._ids.of(step))

    def batches(self, start: int = 0) -> Generator[Batch[Tensor], None, None]:
        """Yield batches without end, beginning at step `start`."""
        for ids in self._ids.following(start, self._block_steps):
            yield self.layout.batch(ids)


class _Mapped:
    """Reads ids from memory-mapped shards, ahead of time in a thread."""

    def __init__(
        self, shards: Sequence[Ids], order: Order, batch_size: int, share: Slots, device: torch.device, known: Check
    ) -> None:
        self.known = known
        self.shards = [np.asarray(shard) for shard in shards]  # a plain view: np.memmap is slow to index
        self.starts = np.cumsum([0, *map(len, shards)])
        self.order = order
        self.batch_size = batch_size
        self.share = share
        self.device = device

    def of(self, step: int) -> Tensor:
        return self._send(self._read(range(step, step + 1))[0])

    def following(self, start: int, steps: int) -> Iterator[Tensor]:
        blocks = (range(first, first + steps) for first in count(start, steps))
        reader = ThreadPoolExecutor(1, thread_name_prefix="loader")
        try:
            reading = deque(reader.submit(self._read, block) for block in islice(blocks, BLOCKS_AHEAD))
            for block in blocks:
                batches = reading.popleft().result()
                reading.append(reader.submit(self._read, block))
                yield from map(self._send, batches)
        finally:
            reader.shutdown(cancel_futures=True)

    def _read(self, steps: range) -> Tensor:
        """Read the ids (steps, B, L) of several batches into host memory, pinned for transfer to a GPU."""
        positions = np.array(steps)[:, None] * self.batch_size + self.share
        rows = self.order.rows(positions)
        dtype = self.shards[0].dtype
        ids = torch.empty(
            (*rows.shape, self.shards[0].shape[1]), dtype=_SIGNED[dtype.itemsize], pin_memory=self.device.type == "cuda"
        )
        gathered = ids.numpy().view(dtype)
        found = np.searchsorted(self.starts, rows, side="right") - 1
        for number in np.unique(found):
            slots = np.nonzero(found == number)
            gathered[slots] = self.known(self.shards[number][rows[slots] - self.starts[number]])
        return ids

    def _send(self, ids: Tensor) -> Tensor:
        return _widen(moved(ids, self.device))


class _Resident:
    """Keeps all ids on the device; a step needs no work on the host and can be part of a CUDA graph."""

    def __init__(
        self, shards: Sequence[Ids], order: Order, batch_size: int, share: Slots, device: torch.device, known: Check
    ) -> None:
        self.order = order.map(lambda array: torch.as_tensor(array, device=device))
        self.batch_size = batch_size
        self.share = torch.as_tensor(share, device=device)
        rows = sum(map(len, shards))
        self.stored = torch.empty((rows, shards[0].shape[1]), dtype=_SIGNED[shards[0].dtype.itemsize], device=device)
        start = 0
        for shard in shards:
            part = torch.from_numpy(known(np.array(shard)).view(f"i{shard.dtype.itemsize}"))
            self.stored[start : start + len(shard)].copy_(part)
            start += len(shard)

    def of(self, step: int) -> Tensor:
        return _widen(self.stored[self._rows(step)])

    def following(self, start: int, steps: int) -> Iterator[Tensor]:
        for first in count(start, steps):
            for rows in self._rows(torch.arange(first, first + steps, device=self.share.device)[:, None]):
                yield _widen(self.stored[rows])

    def _rows(self, step: int | Tensor) -> Tensor:
        rows: Tensor = self.order.rows(step * self.batch_size + self.share)
        return rows


def _known(corpora: Sequence[Corpus], ids: Any) -> Any:
    """Return the ids, or raise an error if one is not in the vocabulary, as in damaged files."""
    pieces = corpora[0].manifest.vocab_size
    if (largest := int(ids.max())) >= pieces:
        verified = " and ".join(f"electra corpus --verify {corpus.path}" for corpus in corpora)
        raise DataError(f"found token {largest}, but the vocabulary has {pieces}; check with: {verified}")
    return ids


def _widen(ids: Tensor) -> Tensor:
    """Return the ids as int64, reading their bits as unsigned again."""
    return ids.long() & (1 << 8 * ids.element_size()) - 1
