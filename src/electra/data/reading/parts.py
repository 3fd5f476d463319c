"""Read text in parts, the units of work of several processes; where a part ends depends only on the text."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from electra.data.cluster import Cluster
from electra.data.reading.sources import Source, open_raw, readable
from electra.data.reading.text import Passage, Tally, read_sources
from electra.data.settings import Reading
from electra.errors import ClusterError

BATCH_BYTES = 1 << 26  # of sources that one process reads; a larger source is read by one process all the same
PASSAGE_COST = 100  # memory overhead of a passage, in characters
CORES_PER_READER = 16  # tokenizing takes 65 times as long as reading plain text, and 20 times as long as reading .xz


class Part(NamedTuple):
    """Consecutive passages of a text."""

    passages: Any  # a sequence, or on a cluster a reference to one
    passage_count: int
    characters: int
    digest: bytes  # of the text
    tally: Tally  # what was read since the last part

    @property
    def size(self) -> int:
        """Return the memory that the passages need, in characters."""
        return self.characters + PASSAGE_COST * self.passage_count


def read_parts(
    sources: Sequence[Source], reading: Reading, limit: int, cluster: Cluster | None = None
) -> Iterator[Part]:
    """Yield parts of at least `limit` characters; the last part of a batch of sources may be shorter, even empty.

    The nodes of a cluster read addresses, unless a text column has to be guessed, which depends on earlier sources.
    """
    if cluster and not any(_needs_this_machine(source, reading) for source in sources):
        cluster.check_nodes(partial(_open, sources[0]))
        step = partial(_read_batch, reading=reading, limit=limit)
        for part, passages in cluster.streams(step, _batches(sources), 1 + cluster.cores // CORES_PER_READER):
            yield part._replace(passages=passages)
        return
    tally = Tally()  # remembers the text columns of all batches
    for batch in _batches(sources):
        yield from _parts(read_sources(batch, reading, tally), tally, limit)


def check_addresses(sources: Iterable[Source], reading: Reading) -> None:
    """Raise an error that names the first source that nodes cannot read."""
    for source in sources:
        if problem := _needs_this_machine(source, reading):
            raise ClusterError(f"the nodes of a cluster cannot read {source.name}: {problem}")


def _needs_this_machine(source: Source, reading: Reading) -> str | None:
    if not source.remote:
        return "it is not an address such as s3://bucket/text; copy it there, or leave out --cluster"
    if source.format != "text" and not reading.column:
        return "the column that holds the text must be named with --column"
    return None


def _open(source: Source) -> None:
    with readable(source.name), open_raw(source) as stream:
        stream.read(1)


def _read_batch(batch: Sequence[Source], reading: Reading, limit: int) -> Iterator[tuple[Part, Sequence[Passage]]]:
    tally = Tally()
    for part in _parts(read_sources(batch, reading, tally), tally, limit):
        yield part._replace(passages=None), part.passages


def _batches(sources: Iterable[Source]) -> Iterator[list[Source]]:
    """Yield consecutive sources of at least `BATCH_BYTES` together."""
    held: list[Source] = []
    size = 0
    for source in sources:
        held.append(source)
        size += BATCH_BYTES if source.size is None else source.size
        if size >= BATCH_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def _parts(passages: Iterable[Passage], tally: Tally, limit: int) -> Iterator[Part]:
    held: list[Passage] = []
    size = 0
    for passage in passages:
        held.append(passage)
        size += len(passage.text) + PASSAGE_COST
        if size >= limit:
            yield _part(held, tally)
            held, size = [], 0
    yield _part(held, tally)  # with what was counted after the last passage


def _part(passages: list[Passage], tally: Tally) -> Part:
    digest = hashlib.blake2b(digest_size=16)
    for passage in passages:
        digest.update(passage.text.encode() + (b"\0" if passage.last else b""))
    characters = sum(len(passage.text) for passage in passages)
    return Part(passages, len(passages), characters, digest.digest(), tally.take())
