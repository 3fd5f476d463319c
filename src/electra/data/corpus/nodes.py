"""The nodes of a cluster as workers: they read, tokenize, cut and write, and this machine decides what is kept."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from electra.data.cluster import Cluster, ahead
from electra.data.corpus.encode import TokenBlock
from electra.data.corpus.group import Block, Fates, Shards, Writer
from electra.data.corpus.workers import Step
from electra.data.files import partial_path, sync
from electra.data.reading.parts import Part, read_parts
from electra.data.reading.sources import Source
from electra.data.reading.text import Passage
from electra.data.settings import Reading

CORES_PER_WRITER = 16  # tokenizing a group takes 26 times as long as cutting it


class Nodes:
    """Does the work of a build on a cluster; tokens stay there until they are cut, wherever they were made."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ahead = 1 + cluster.cores // CORES_PER_WRITER

    def read(self, sources: Sequence[Source], reading: Reading, limit: int) -> Iterator[Part]:
        """Yield the parts of a text, whose passages are references if the nodes read them."""
        return read_parts(sources, reading, limit, self.cluster)

    def tokenize(self, blocks: Iterable[Block], step: Step) -> Generator[tuple[Block, TokenBlock, Any], None, None]:
        """Yield each block, its tokens without their ids, and a reference to all of them, in order."""
        start = self.cluster.starter(partial(_tokenize, step), num_returns=2)
        for block, (described, tokens) in ahead(blocks, lambda block: start(block.passages), 2 * self.cluster.cores):
            yield block, self.cluster.result(described), tokens

    def write(
        self, writer: Writer, group: int, blocks: Iterable[tuple[Any, Fates]], folder: Path
    ) -> Callable[[], Shards]:
        """Let a node write the shards of a group, and return a function that waits for them and copies them here."""
        tokens, fates = zip(*blocks, strict=True)
        answer = self.cluster.starter(partial(_write, writer))(group, fates, *tokens)
        return lambda: _copied(self.cluster.result(answer), folder)


def _tokenize(step: Step, passages: Sequence[Passage]) -> tuple[TokenBlock, TokenBlock]:
    block = step(passages)
    return block.without_ids(), block


def _write(writer: Writer, group: int, fates: Sequence[Fates], *blocks: TokenBlock) -> tuple[Shards, dict[str, bytes]]:
    with TemporaryDirectory() as folder:
        shards = writer.write(group, zip(blocks, fates, strict=True), Path(folder))
        return shards, {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _copied(written: tuple[Shards, dict[str, bytes]], folder: Path) -> Shards:
    shards, files = written
    for name, content in files.items():
        path = partial_path(folder / name)
        path.write_bytes(content)
        sync(path)
        path.replace(folder / name)
    return shards
