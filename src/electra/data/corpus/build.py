"""Build a corpus of shards from text in parallel; the number of workers does not change the result."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from electra import __version__
from electra.data.checksums import write_checksums
from electra.data.cluster import Cluster, connected
from electra.data.corpus.clean import Keys, check_cleaning
from electra.data.corpus.cut import CUTS, Cutter, Frame
from electra.data.corpus.encode import TokenBlock, tokenize_documents
from electra.data.corpus.shards import SPLITS, Corpus, Manifest, ShardWriter, Split, dtype_for, open_corpus, split_off
from electra.data.corpus.sieve import Report, Sieve
from electra.data.corpus.unfinished import Group, Unfinished, check_place
from electra.data.corpus.verify import check_corpus
from electra.data.corpus.workers import Block, available_cores, tokenize_in_order
from electra.data.files import file_sha256
from electra.data.reading.sources import Source, find_sources, names_of
from electra.data.reading.text import Passage, Tally, read_documents
from electra.data.settings import Building, Cleaning, Cut, Reading
from electra.data.storage import is_remote, working_copy
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.errors import NO_ROOM, DataError

BLOCK_CHARACTERS = 1 << 20
HELDOUT_END = 0.05  # share of a shard that is held out if no document is
PASSAGE_COST = 100  # memory overhead of a passage, in characters


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

    `cluster` is the address of a Ray cluster, or `auto`, that tokenizes instead of worker processes.
    """
    building = Building(length, cut, seed, heldout, reading, cleaning, shard_characters)
    check_cleaning(cleaning)
    names = names_of(sources)
    tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else load_tokenizer(tokenizer)
    out = str(out).rstrip("/") if is_remote(out) else Path(out).expanduser().resolve()
    try:
        if not _is_built(out, names, tokenizer, building):
            unfinished = Unfinished(out)
            with working_copy(unfinished.name), connected(cluster) if cluster else nullcontext() as ray:
                builder = _Builder(names, tokenizer, building, unfinished, progress)
                builder.run(available_cores() if workers is None else workers, ray)
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise DataError(
            f"no room to write {out}: {problem.strerror}; free some space and run the same command again to resume"
        ) from None
    return open_corpus(out)


def _is_built(out: str | Path, names: Sequence[str], tokenizer: Tokenizer, building: Building) -> bool:
    if not check_place(out):
        return False
    corpus = open_corpus(out)
    found = corpus.manifest.provenance
    sources = find_sources(names, building.reading.format)[0]
    wanted = _provenance(sources, tokenizer, building)
    changed = ["text" if key == "sources" else key for key in wanted if wanted[key] != found.get(key)]
    if not changed and any(source.size is None for source in sources):
        raise DataError(f"{out} holds a corpus, and {sources[0].name} may have changed; choose another --out")
    if changed:
        raise DataError(f"{out} holds a corpus made with another {', '.join(changed)}; choose another --out")
    if not corpus.address:
        check_corpus(corpus)
    Unfinished(out).discard()  # an earlier run may have been killed while removing it
    return True


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


@dataclass
class _Builder:
    """One run of a build, which resumes from earlier runs."""

    names: Sequence[str]
    tokenizer: Tokenizer
    building: Building
    unfinished: Unfinished
    progress: Callable[[Progress], None] | None

    def __post_init__(self) -> None:
        tokenizer, building = self.tokenizer, self.building
        dtype = dtype_for(tokenizer.vocab_size)
        self.frame = Frame(building.length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, dtype)
        self.step = partial(
            tokenize_documents,
            tokenizer=tokenizer,
            cleaning=building.cleaning,
            dtype=dtype,
            divide_lines=CUTS[building.cut].divides_lines,
        )
        self.sieve = Sieve(building.cleaning, building.heldout, tokenizer.unk_id)
        self.tally = Tally()
        self.groups: list[Group] = []

    def run(self, workers: int, cluster: Cluster | None) -> None:
        """Build the corpus and move it to its final place."""
        with self.unfinished.opened(_settings(self.tokenizer, self.building)):
            self.tokenizer.save(self.unfinished.corpus / "tokenizer")
            write_checksums(self.unfinished.corpus / "tokenizer")
            for finished, keys in self.unfinished.finished_groups():
                self.groups.append(finished)
                self.sieve.fate, self.sieve.reason = finished.fate, finished.reason
                self.sieve.seen.add(keys.ravel())
            passages = read_documents(self.names, self.building.reading, self.tally)
            blocks = self._skip_finished(_blocks(passages, self.building.shard_characters, self.tally))
            with closing(tokenize_in_order(blocks, self.step, workers, cluster)) as tokenized:
                for number, group in groupby(tokenized, key=lambda pair: pair[0].group):
                    self._write_group(number, group)
            if self.building.heldout and not any("heldout" in group.shards for group in self.groups):
                self._hold_out_the_end()
            self._manifest().write(self.unfinished.corpus)
            self.unfinished.publish()

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

    def _write_group(self, number: int, blocks: Iterable[tuple[Block, TokenBlock]]) -> None:
        report = Report()
        keys: list[Keys] = []
        cutters = {split: self._cutter(number, split) for split in SPLITS}
        with ExitStack() as stack:
            writers = {split: stack.enter_context(closing(self._writer(number, split))) for split in SPLITS}
            for block, tokens in blocks:
                fates, new_keys = self.sieve.sift(tokens, report)
                keys.append(new_keys)
                passages = zip(fates, tokens.passages(), tokens.first.tolist(), tokens.last.tolist(), strict=True)
                for split, (ids, sentence_tokens), first, last in passages:
                    if split is not None:
                        writers[split].write(cutters[split].add(ids, sentence_tokens, first, last))
                if self.progress:
                    self.progress(self._progress(report, block))
            for split in SPLITS:
                writers[split].write(cutters[split].finish())
            shards = {split: shard for split in SPLITS if (shard := writers[split].finish())}
        self.groups.append(Group(block.fingerprint, self.sieve.fate, self.sieve.reason, shards, report))
        self.unfinished.finish_group(number, self.groups[-1], np.concatenate(keys))

    def _hold_out_the_end(self) -> None:
        """Hold out the last sequences of a text of so few documents that none was held out.

        A build that is killed meanwhile finds that group damaged when it resumes, and repeats it.
        """
        trained = [number for number, group in enumerate(self.groups) if "train" in group.shards]
        shards = self.groups[trained[-1]].shards if trained else {}
        if trained and shards["train"].sequences > 1:
            count = max(1, int(HELDOUT_END * shards["train"].sequences))
            heldout = self._writer(trained[-1], "heldout")
            shards["train"], shards["heldout"] = split_off(shards["train"], count, heldout)

    def _writer(self, group: int, split: Split) -> ShardWriter:
        return ShardWriter(self.unfinished.corpus, f"{split}-{group:05d}.npy", self.frame)

    def _cutter(self, group: int, split: Split) -> Cutter:
        return CUTS[self.building.cut](self.frame, Random(f"{self.building.seed} {group} {split}"))

    def _progress(self, report: Report, block: Block) -> Progress:
        reports = [report, *(group.report for group in self.groups)]
        return Progress(
            block.bytes_read,
            self.tally.total_bytes,
            sum(report.documents_read for report in reports),
            sum(report.tokens_read for report in reports),
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
            dtype=self.frame.dtype.name,
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
                "duplicates_beyond_memory": not self.sieve.seen.room,
            },
        )


def _blocks(passages: Iterable[Passage], shard_characters: int, tally: Tally) -> Iterator[Block]:
    """Collect passages into numbered groups of blocks, depending only on the text."""
    limit = min(BLOCK_CHARACTERS, shard_characters)
    fingerprint = hashlib.blake2b(digest_size=16)
    group = group_size = size = 0
    held: list[Passage] = []
    for passage in passages:
        held.append(passage)
        size += len(passage.text) + PASSAGE_COST
        fingerprint.update(passage.text.encode() + (b"\0" if passage.last else b""))
        if size >= limit:
            yield Block(held, group, fingerprint.hexdigest(), tally.bytes_read)
            group_size += size
            held, size = [], 0
            if group_size >= shard_characters:
                group, group_size = group + 1, 0
    if held:
        yield Block(held, group, fingerprint.hexdigest(), tally.bytes_read)
