"""Groups of blocks: a group becomes one shard of each split, written by one process."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import NamedTuple

from electra.data.corpus.cut import CUTS, Frame
from electra.data.corpus.encode import TokenBlock
from electra.data.corpus.shards import SPLITS, Shard, ShardWriter, Split
from electra.data.reading.parts import Part
from electra.data.reading.text import Passage, Tally
from electra.data.settings import Cut

Fates = list[Split | None]  # the split of each passage of a block, None if it is dropped
Shards = dict[Split, Shard]


class Block(NamedTuple):
    """The text that a worker takes at a time."""

    passages: Sequence[Passage]
    group: int
    fingerprint: str  # of all text up to the end of this block
    bytes_read: int  # up to the end of this block, as stored


def number_blocks(parts: Iterable[Part], shard_characters: int, tally: Tally) -> Iterator[Block]:
    """Number the groups that the parts of a text belong to, and count in `tally` what was read."""
    fingerprint = ""
    group = size = 0
    for part in parts:
        tally.add(part.tally)
        if not part.passage_count:
            continue
        fingerprint = hashlib.blake2b(fingerprint.encode() + part.digest, digest_size=16).hexdigest()
        yield Block(part.passages, group, fingerprint, tally.bytes_read)
        size += part.size
        if size >= shard_characters:
            group, size = group + 1, 0


@dataclass(frozen=True)
class Writer:
    """Cuts the documents of a group into sequences and writes them."""

    frame: Frame
    cut: Cut
    seed: int

    def write(self, group: int, blocks: Iterable[tuple[TokenBlock, Fates]], folder: Path) -> Shards:
        """Write a shard of each split, unless it is empty."""
        cutters = {split: CUTS[self.cut](self.frame, Random(f"{self.seed} {group} {split}")) for split in SPLITS}
        with ExitStack() as stack:
            writers = {split: stack.enter_context(closing(self.shard(folder, group, split))) for split in SPLITS}
            for block, fates in blocks:
                passages = zip(fates, block.passages(), block.first.tolist(), block.last.tolist(), strict=True)
                for split, (ids, sentence_tokens), first, last in passages:
                    if split is not None:
                        writers[split].write(cutters[split].add(ids, sentence_tokens, first, last))
            for split in SPLITS:
                writers[split].write(cutters[split].finish())
            return {split: shard for split in SPLITS if (shard := writers[split].finish())}

    def shard(self, folder: Path, group: int, split: Split) -> ShardWriter:
        """Return the writer of one shard."""
        return ShardWriter(folder, f"{split}-{group:05d}.npy", self.frame)
