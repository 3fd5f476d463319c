"""Build a corpus of shards from text in parallel; the number of workers does not change the result."""

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from electra import __version__
from electra.data.corpus.clean import Keys, check_cleaning
from electra.data.corpus.cut import Cutter, Frame, PackedCut, PaperCut
from electra.data.corpus.encode import TokenBlock
from electra.data.corpus.shards import SPLITS, Corpus, Manifest, Shard, ShardWriter, Split, dtype_for, open_corpus
from electra.data.corpus.sieve import Report, Sieve
from electra.data.corpus.unfinished import Group, Unfinished, check_place
from electra.data.corpus.workers import Job, available_cores, tokenize_in_order
from electra.data.files import file_sha256
from electra.data.reading.sources import Source, find_sources, names_of
from electra.data.reading.text import Passage, Tally, read_documents
from electra.data.settings import Building, Cleaning, Cut, Reading
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer
from electra.errors import NO_ROOM, DataError

BLOCK_CHARACTERS = 1 << 20
PASSAGE_COST = 100  # memory overhead of a passage, in characters


class Progress(NamedTuple):
    """Progress of a build."""

    bytes_read: int
    total_bytes: int | None
    documents: int
    tokens: int


class Block(NamedTuple):
    """The text that a worker takes at a time; a group of blocks becomes one shard of each split."""

    passages: list[Passage]
    group: int
    fingerprint: str  # of all text up to the end of this block
    bytes_read: int  # up to the end of this block, as stored


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
    progress: Callable[[Progress], None] | None = None,
) -> Corpus:
    """Build a corpus from text; after an interruption, the same call resumes and gives the same bytes."""
    building = Building(
        length=length,
        cut=cut,
        seed=seed,
        heldout=heldout,
        reading=reading,
        cleaning=cleaning,
        shard_characters=shard_characters,
    )
    check_cleaning(cleaning)
    names = names_of(sources)
    tokenizer = tokenizer if isinstance(tokenizer, Tokenizer) else load_tokenizer(tokenizer)
    out = Path(out).expanduser().resolve()
    try:
        if not _is_built(out, names, tokenizer, building):
            _Builder(names, tokenizer, building, out, progress).run(available_cores() if workers is None else workers)
    except OSError as problem:
        if problem.errno not in NO_ROOM:
            raise
        raise DataError(
            f"no room to write {out}: {problem.strerror}; free some space and run the same command again to resume"
        ) from None
    return open_corpus(out)


def _is_built(out: Path, names: Sequence[str], tokenizer: Tokenizer, building: Building) -> bool:
    if not check_place(out):
        return False
    found = open_corpus(out).manifest.provenance
    sources = find_sources(names, building.reading.format)[0]
    wanted = _provenance(sources, tokenizer, building)
    changed = ["text" if key == "sources" else key for key in wanted if wanted[key] != found.get(key)]
    if not changed and any(source.size is None for source in sources):
        raise DataError(f"{out} holds a corpus, and {sources[0].name} may have changed; choose another --out")
    if changed:
        raise DataError(f"{out} holds a corpus made with another {', '.join(changed)}; choose another --out")
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


class _Builder:
    """One run of a build, which resumes from earlier runs."""

    def __init__(
        self,
        names: Sequence[str],
        tokenizer: Tokenizer,
        building: Building,
        out: Path,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.names = names
        self.tokenizer = tokenizer
        self.building = building
        self.unfinished = Unfinished(out)
        self.progress = progress
        self.tally = Tally()
        self.sieve = Sieve(building.cleaning, building.heldout, tokenizer.unk_id)
        self.groups: list[Group] = []
        self.frame = Frame(
            building.length, tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, dtype_for(tokenizer.vocab_size)
        )

    def run(self, workers: int) -> None:
        """Build the corpus and move it to its final place."""
        with self.unfinished.opened(_settings(self.tokenizer, self.building)):
            self.tokenizer.save(self.unfinished.corpus / "tokenizer")
            self._restore()
            passages = read_documents(self.names, self.building.reading, self.tally)
            blocks = self._skip_finished(_blocks(passages, self.building.shard_characters, self.tally))
            tokenizer = self.tokenizer
            job = Job(tokenizer.backend.to_str(), tokenizer.names, self.building.cleaning, self.frame.dtype)
            with closing(tokenize_in_order(blocks, job, workers)) as tokenized:
                for number, group in groupby(tokenized, key=lambda pair: pair[0].group):
                    self._write_group(number, group)
            self._manifest().write(self.unfinished.corpus)
            self.unfinished.publish()

    def _restore(self) -> None:
        self.groups = self.unfinished.finished_groups()
        for number, group in enumerate(self.groups):
            self.sieve.seen.add(self.unfinished.keys(number).ravel())
            self.sieve.fate, self.sieve.reason = group.fate, group.reason

    def _skip_finished(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Skip finished blocks after checking that their text has not changed."""
        finished = len(self.groups)
        expected = self.groups[-1].fingerprint if self.groups else ""
        reached = ""
        for block in blocks:
            if block.group < finished:
                reached = block.fingerprint
                continue
            if reached != expected:
                break
            yield block
        if reached != expected:
            raise DataError(
                f"the text has changed since {self.unfinished.folder} was started; remove that folder to start over"
            )

    def _write_group(self, number: int, blocks: Iterable[tuple[Block, TokenBlock]]) -> None:
        with closing(_GroupWriter(self.unfinished.corpus, number, self.building, self.frame)) as writer:
            for block, tokens in blocks:
                writer.add(tokens, self.sieve)
                fingerprint = block.fingerprint
                if self.progress:
                    self.progress(self._progress(writer, block))
            shards = {split: shard for split in SPLITS if (shard := writer.finish(split))}
        self.groups.append(Group(fingerprint, self.sieve.fate, self.sieve.reason, shards, writer.report))
        self.unfinished.finish_group(number, self.groups[-1], np.concatenate(writer.keys))

    def _progress(self, writer: "_GroupWriter", block: Block) -> Progress:
        reports = [writer.report, *(group.report for group in self.groups)]
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
            special_ids={
                "pad": tokenizer.pad_id,
                "unk": tokenizer.unk_id,
                "cls": tokenizer.cls_id,
                "sep": tokenizer.sep_id,
                "mask": tokenizer.mask_id,
            },
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


class _GroupWriter:
    """Writes the shards of one group of blocks."""

    def __init__(self, folder: Path, number: int, building: Building, frame: Frame) -> None:
        self.report = Report()
        self.keys: list[Keys] = []
        self.writers = {split: ShardWriter(folder, f"{split}-{number:05d}.npy", frame) for split in SPLITS}
        self.cutters = {split: _cutter(building, frame, number, split) for split in SPLITS}

    def add(self, block: TokenBlock, sieve: Sieve) -> None:
        """Cut the documents to keep into rows and write them."""
        fates, keys = sieve.sift(block, self.report)
        self.keys.append(keys)
        for number, (split, (ids, line_tokens)) in enumerate(zip(fates, block.passages(), strict=True)):
            if split is not None:
                first, last = bool(block.first[number]), bool(block.last[number])
                for row in self.cutters[split].add(ids, line_tokens, first, last):
                    self.writers[split].write(row)

    def finish(self, split: Split) -> Shard | None:
        """Write the last rows of a split and return its shard, or None if it is empty."""
        for row in self.cutters[split].finish():
            self.writers[split].write(row)
        return self.writers[split].finish()

    def close(self) -> None:
        """Close all files, even if closing one of them fails."""
        with ExitStack() as stack:
            for writer in self.writers.values():
                stack.callback(writer.close)


def _cutter(building: Building, frame: Frame, group: int, split: Split) -> Cutter:
    if building.cut == "packed":
        return PackedCut(frame)
    return PaperCut(frame, random.Random(f"{building.seed} {group} {split}"))


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
