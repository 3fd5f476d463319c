"""Compare the files of a corpus with its manifest."""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from shutil import rmtree

import numpy as np

from electra.data.corpus.shards import SPLITS, Corpus, open_corpus
from electra.data.files import differing_files, read_sealed, write_sealed
from electra.data.tokens.tokenizer import load_tokenizer
from electra.errors import DataError

VERIFIED = ".verified.json"  # in the corpus: the files that were intact when they were last read, and their state then


def verify_corpus(path: str | Path) -> list[str]:
    """Compare every file of a corpus with its manifest and return the differences."""
    corpus = open_corpus(path)
    corpus.fetch(corpus.manifest.checksums)
    return _damages(corpus, corpus.manifest.checksums) or _miscounted(corpus)


def check_corpus(corpus: Corpus, files: Collection[str] | None = None) -> None:
    """Raise an error if a file, or one of some files, differs from the manifest; unchanged ones are skipped.

    A file has not changed since its last check if its size and its times are the same. A read-only corpus is read every
    time.
    """
    expected = corpus.manifest.checksums
    checksums = expected if files is None else {file: expected[file] for file in files}
    corpus.fetch(checksums)
    known: dict[str, str] = {}
    with suppress(OSError):
        known = read_sealed(corpus.path / VERIFIED) or {}
    states = {file: f"{sha256} {_state(corpus.path / file)}" for file, sha256 in checksums.items()}
    changed = {file: checksums[file] for file in checksums if states[file] != known.get(file)}
    damages = _damages(corpus, changed)
    if damages and corpus.address:
        rmtree(corpus.path)
        raise DataError(f"the local copy of {corpus.address} was damaged: {damages[0]}; run the same command again")
    if damages:
        raise DataError(f"{corpus.path} is damaged: {'; '.join(damages)}; delete it and build it again")
    if changed:
        with suppress(OSError):
            write_sealed(corpus.path / VERIFIED, known | states)


def _state(path: Path) -> str:
    """Return what changes when a file is written, or replaced by a copy that keeps the time of modification."""
    found = path.stat() if path.is_file() else None
    return f"{found.st_size} {found.st_mtime_ns} {found.st_ctime_ns}" if found else "missing"


def _damages(corpus: Corpus, expected: dict[str, str]) -> list[str]:
    if differing := differing_files(corpus.path, expected):
        fault = "does not match its checksum in the manifest"
        return [f"{file} {fault if (corpus.path / file).is_file() else 'is missing'}" for file in differing]
    if load_tokenizer(corpus.path / "tokenizer").fingerprint != corpus.manifest.provenance["tokenizer"]:
        return ["tokenizer/tokenizer_config.json has changed"]
    return []


def _miscounted(corpus: Corpus) -> list[str]:
    manifest = corpus.manifest
    special = [manifest.special_ids[name] for name in ("pad", "cls", "sep")]
    problems = []
    for split in SPLITS:
        corpus.documents(split)  # checks their number
        for shard, ids in zip(manifest.splits[split], corpus.shards(split), strict=True):
            tokens = sum(int((~np.isin(rows, special)).sum()) for rows in np.array_split(ids, len(ids) // 65536 + 1))
            if tokens != shard.tokens:
                problems.append(f"{shard.file} holds {tokens} tokens, but the manifest says {shard.tokens}")
    for name in ("tokens", "sequences", "documents"):
        total = sum(getattr(shard, name) for shard in manifest.shards)
        if total != getattr(manifest, name):
            problems.append(f"the manifest says {getattr(manifest, name)} {name}, but its shards have {total}")
    return problems
