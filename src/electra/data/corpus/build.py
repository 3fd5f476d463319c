"""Build a corpus of shards from text in parallel; the number of workers does not change the result."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from electra import __version__
from electra.data.checksums import write_checksums
from electra.data.cluster import ahead, connected
from electra.data.corpus.clean import Keys, check_cleaning
from electra.data.corpus.cut import CUTS, Frame
from electra.data.corpus.encode import TokenBlock, tokenize_documents
from electra.data.corpus.group import Block, Fates, Shards, Writer, number_blocks
from electra.data.corpus.nodes import Nodes
from electra.data.corpus.shards import MANIFEST, SPLITS, Corpus, Manifest, Split, dtype_for, open_corpus, split_off
from electra.data.corpus.sieve import Report, Sieve
from electra.data.corpus.unfinished import Group, Unfinished, check_place
from electra.data.corpus.verify import check_corpus
from electra.data.corpus.workers import Workers
from electra.data.files import file_sha256
from electra.data.reading.sources import Source, find_sources, names_of
from electra.data.reading.text import Tally, find_texts
from electra.data.settings import Building, Cleaning, Cut, Reading
from electra.data.storage import is_remote, working_copy
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.errors import NO_ROOM, DataError

BLOCK_CHARACTERS = 1 << 20
HELDOUT_END = 0.05  # share of a shard that is held out if no document is


class Progress(NamedTuple):
    """Progress of a build."""

    bytes_read: int
    total_bytes: int | None
    documents: int
    tokens: int


def build_corpus(
    sources: str | Path | Sequence[str | Path],
    tokenizer: Tokenizer | str | Path,
    *,
    length: int,
    out: str | Path,
    cut: Cut = Building.cut,
    seed: int = Building.seed,
    heldout: float = Building.heldout,
    reading: Reading = Building.reading,
    cleaning: Cleaning = Building.cleaning,
    shard_characters: int = Building.shard_characters,
    workers: int | None = None,
    cluster: str | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Corpus:
    """Build a corpus from text; after an interruption, the same call resumes and gives the same bytes.

    `cluster` is the address of a Ray cluster, or `auto`, that works instead of processes on this machine.
    """
    building = Building(length, cut, seed, heldout, reading, cleaning, shard_characters)
    check_cleaning(cleaning)
    names = names_of(sources)
    tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else load_tokenizer(tokenizer)
    out = str(out).rstrip("/") if is_remote(out) else Path(out).expanduser().resolve()
    try:
        if not _is_built(out, names, tokenizer, building, workers):
            unfinished = Unfinished(out)
            with working_copy(unfinished.name), connected(cluster) if cluster else nullcontext() as found:
                local = Workers(workers)
                _Builder(names, tokenizer, building, unfinished, Nodes(found) if found else local, progress).run()
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise DataError(
            f"no room to write {out}: {problem.strerror}; free some space and run the same command again to resume"
        ) from None
    return open_corpus(out)


def _is_built(
    out: str | Path, names: Sequence[str], tokenizer: Tokenizer, building: Building, workers: int | None
) -> bool:
    if not check_place(out):
        return False
    corpus = open_corpus(out)
    found = corpus.manifest.provenance
    sources = find_sources(names, building.reading.format)[0]
    wanted = _provenance(sources, tokenizer, building)
    changed = ["text" if key == "sources" else key for key in wanted if wanted[key] != found.get(key)]
    if not changed and any(source.size is None for source in sources):
        raise DataError(f"{out} holds a corpus, and {sources[0].name} may have changed; choose another --out")
    if not changed and not corpus.address and _are_newer(sources, corpus.path / MANIFEST):
        reached = deque((block.fingerprint for block in _read(names, building, Workers(workers), Tally())), maxlen=1)
        changed = [] if [*reached] == [found.get("text_fingerprint")] else ["text"]
    if changed:
        raise DataError(f"{out} holds a corpus made with another {', '.join(changed)}; choose another --out")
    if not corpus.address:
        check_corpus(corpus)
    Unfinished(out).discard()  # an earlier run may have been killed while removing it
    return True


def _are_newer(sources: Iterable[Source], manifest: Path) -> bool:
    """Return whether a local file was written after a corpus, so that its text may have changed."""
    files = [Path(source.name) for source in sources if source.size is not None and not source.remote]
    return any(file.stat().st_mtime > manifest.stat().st_mtime for file in files)


def _read(names: Sequence[str], building: Building, workers: Workers | Nodes, tally: Tally) -> Iterator[Block]:
    """Read the text in blocks."""
    tally.sources, tally.ignored = find_texts(names, building.reading)
    size = building.shard_characters
    parts = workers.read(tally.sources, building.reading, min(BLOCK_CHARACTERS, size))
    return number_blocks(parts, size, tally)


def _settings(tokenizer: Tokenizer, building: Building) -> dict[str, Any]:
    """Return the settings that affect the tokens of a text; those of reading do not, as the text itself is compared."""
    settings = {"tokenizer": tokenizer.fingerprint, **asdict(building)}
    del settings["reading"]
    return settings


def _provenance(sources: Sequence[Source], tokenizer: Tokenizer, building: Building) -> dict[str, Any]:
    return {
        "sources": [asdict(source) for source in sources],
        "reading": asdict(building.reading),
        **_settings(tokenizer, building),
    }


class _Begun(NamedTuple):
    """A group that is being written."""

    shards: Callable[[], Shards]  # waits for them
    fingerprint: str
    fate: Split | None
    reason: str
    report: Report
    keys: Keys


@dataclass
class _Builder:
    """One run of a build, which resumes from earlier runs."""

    names: Sequence[str]
    tokenizer: Tokenizer
    building: Building
    unfinished: Unfinished
    workers: Workers | Nodes
    progress: Callable[[Progress], None] | None

    def __post_init__(self) -> None:
        tokenizer, building = self.tokenizer, self.building
        dtype = dtype_for(tokenizer.vocab_size)
        frame = Frame(building.length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, dtype)
        self.writer = Writer(frame, building.cut, building.seed)
        self.step = partial(
            tokenize_documents,
            tokenizer=tokenizer,
            cleaning=building.cleaning,
            dtype=dtype,
            divide_lines=CUTS[building.cut].divides_lines,
        )
        self.sieve = Sieve(building.cleaning, building.heldout, self.unfinished.folder)
        self.tally = Tally()
        self.reports: list[Report] = []  # of all groups, also of those that are being written
        self.groups: list[Group] = []

    def run(self) -> None:
        """Build the corpus and move it to its final place."""
        with self.unfinished.opened(_settings(self.tokenizer, self.building)):
            self.tokenizer.save(self.unfinished.corpus / "tokenizer")
            write_checksums(self.unfinished.corpus / "tokenizer")
            for finished, keys in self.unfinished.finished_groups():
                self.groups.append(finished)
                self.reports.append(finished.report)
                self.sieve.fate, self.sieve.reason = finished.fate, finished.reason
                self.sieve.seen.add(keys.ravel())
            with closing(self.workers.tokenize(self._blocks(), self.step)) as tokenized:
                groups = groupby(tokenized, key=lambda found: found[0].group)
                for (number, _), begun in ahead(groups, lambda pair: self._begin(*pair), self.workers.ahead):
                    self._finish(number, begun)
            if self.building.heldout and not any("heldout" in group.shards for group in self.groups):
                self._hold_out_the_end()
            self._manifest().write(self.unfinished.corpus)
            self.unfinished.publish()

    def _blocks(self) -> Iterator[Block]:
        """Read the text that no earlier run has finished."""
        return self._skip_finished(_read(self.names, self.building, self.workers, self.tally))

    def _skip_finished(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Skip finished blocks after checking that their text has not changed."""
        finished = len(self.groups)
        expected = self.groups[-1].fingerprint if self.groups else ""
        reached = ""
        for block in blocks:
            if block.group < finished:
                reached = block.fingerprint
            elif reached == expected:
                yield block
            else:
                break
        if reached != expected:
            raise DataError(
                f"the text has changed since {self.unfinished.folder} was started; remove that folder to start over"
            )

    def _begin(self, number: int, blocks: Iterable[tuple[Block, TokenBlock, Any]]) -> _Begun:
        """Decide on the documents of a group and have it written."""
        report = Report()
        self.reports.append(report)
        keys: list[Keys] = []
        reached = ""

        def sifted() -> Iterator[tuple[Any, Fates]]:
            nonlocal reached
            for block, described, tokens in blocks:
                fates, new_keys = self.sieve.sift(described, report)
                keys.append(new_keys)
                reached = block.fingerprint
                yield tokens, fates
                if self.progress:
                    self.progress(self._progress(block))

        shards = self.workers.write(self.writer, number, sifted(), self.unfinished.corpus)
        return _Begun(shards, reached, self.sieve.fate, self.sieve.reason, report, np.concatenate(keys))

    def _finish(self, number: int, begun: _Begun) -> None:
        group = Group(begun.fingerprint, begun.fate, begun.reason, begun.shards(), begun.report)
        self.groups.append(group)
        self.unfinished.finish_group(number, group, begun.keys)

    def _hold_out_the_end(self) -> None:
        """Hold out the last sequences of a text of so few documents that none was held out.

        A build that is killed meanwhile finds that group damaged when it resumes, and repeats it.
        """
        trained = [number for number, group in enumerate(self.groups) if "train" in group.shards]
        shards = self.groups[trained[-1]].shards if trained else {}
        if trained and shards["train"].sequences > 1:
            count = max(1, int(HELDOUT_END * shards["train"].sequences))
            heldout = self.writer.shard(self.unfinished.corpus, trained[-1], "heldout")
            shards["train"], shards["heldout"] = split_off(shards["train"], count, heldout)

    def _progress(self, block: Block) -> Progress:
        return Progress(
            block.bytes_read,
            self.tally.total_bytes,
            sum(report.documents_read for report in self.reports),
            sum(report.tokens_read for report in self.reports),
        )

    def _manifest(self) -> Manifest:
        report = Report()
        for group in self.groups:
            report.add(group.report)
        splits = {split: [g.shards[split] for g in self.groups if split in g.shards] for split in SPLITS}
        shards = [shard for split in SPLITS for shard in splits[split]]
        if not splits["train"]:
            self.unfinished.discard()  # the same build would fail again
            reason = "all documents are in the held-out split" if shards else "no document was kept"
            raise DataError(f"nothing to train on: {reason} ({report.documents_read} read)")
        tokenizer = self.tokenizer
        return Manifest(
            tokens=sum(shard.tokens for shard in shards),
            sequences=sum(shard.sequences for shard in shards),
            documents=sum(shard.documents for shard in shards),
            cut=self.building.cut,
            length=self.building.length,
            vocab_size=tokenizer.vocab_size,
            dtype=self.writer.frame.dtype.name,
            special_ids={name: getattr(tokenizer, f"{name}_id") for name in ("pad", "unk", "cls", "sep", "mask")},
            tokenizer_sha256=file_sha256(self.unfinished.corpus / "tokenizer" / "tokenizer.json"),
            seed=self.building.seed,
            heldout=self.building.heldout,
            splits=splits,
            provenance={
                "electra": __version__,
                "text_fingerprint": self.groups[-1].fingerprint,
                **_provenance(self.tally.sources, tokenizer, self.building),
            },
            report={
                **asdict(report),
                "sources_by_document": dict(self.tally.documents),
                "columns": sorted(set(self.tally.columns.values())),
                "ignored_files": self.tally.ignored,
                "invalid_places": self.tally.invalid_places,
            },
        )
