"""A corpus on disk: numpy arrays of token ids and a manifest that describes them.

    CORPUS/manifest.json                the fields of `Manifest`
    CORPUS/train-00000.npy              (sequences, length) token ids, padded with [PAD]; heldout-00000.npy likewise
    CORPUS/train-00000.documents.npy    (documents, 2): the sequence and the offset at which each document begins
    CORPUS/tokenizer/                   the tokenizer's files
    CORPUS/.verified.json               written by training: the files that were intact, with their sizes and times

Segments follow from the ids, since text never contains the ids of special tokens. `packed`: a sequence is one or more
pieces `[CLS] piece [SEP]`, each from one document. `paper`: `[CLS] A [SEP]` or `[CLS] A [SEP] B [SEP]`.
"""

import hashlib
import json
from array import array
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from electra.data.corpus.cut import Frame, Row
from electra.data.files import file_sha256, partial_path, save_array, sync, write_json
from electra.data.settings import Cut
from electra.data.storage import fetch, fetch_folder, is_remote
from electra.errors import DataError

Split = Literal["train", "heldout"]
SPLITS: tuple[Split, ...] = ("train", "heldout")
Ids = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]
Starts = npt.NDArray[np.uint32]
MANIFEST = "manifest.json"


@dataclass(frozen=True)
class Shard:
    """One file of sequences; `tokens` counts text tokens without [CLS], [SEP] and padding."""

    file: str
    sequences: int
    tokens: int
    documents: int  # that begin in this shard
    sha256: str
    documents_sha256: str

    @property
    def documents_file(self) -> str:
        """Return the name of the file with the start of each document."""
        return self.file.removesuffix(".npy") + ".documents.npy"

    @property
    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 checksum of each file."""
        return {self.file: self.sha256, self.documents_file: self.documents_sha256}


@dataclass(frozen=True)
class Manifest:
    """What a corpus holds and how it was built."""

    tokens: int
    sequences: int
    documents: int
    cut: Cut
    length: int
    vocab_size: int
    dtype: str
    special_ids: dict[str, int]  # pad, unk, cls, sep, mask
    tokenizer_sha256: str  # of tokenizer/tokenizer.json
    seed: int
    heldout: float  # requested fraction of documents
    splits: dict[Split, list[Shard]]
    provenance: dict[str, Any]
    report: dict[str, Any]  # what was read, kept and dropped

    @property
    def shards(self) -> list[Shard]:
        """Return the shards of both splits."""
        return [shard for split in SPLITS for shard in self.splits[split]]

    @property
    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 checksum of each file, the tokenizer's first."""
        sums = {"tokenizer/tokenizer.json": self.tokenizer_sha256}
        for shard in self.shards:
            sums |= shard.checksums
        return sums

    def write(self, folder: Path) -> None:
        """Write the manifest atomically."""
        write_json(folder / MANIFEST, asdict(self))


@dataclass(frozen=True)
class Corpus:
    """A finished corpus, opened for reading."""

    path: Path
    manifest: Manifest
    address: str | None = None  # in object storage, from which `path` is filled

    @property
    def fingerprint(self) -> str:
        """Return a hash of the sequences and the tokenizer, independent of the path."""
        sums = [shard.sha256 for shard in self.manifest.shards]
        return hashlib.sha256(" ".join([self.manifest.tokenizer_sha256, *sums]).encode()).hexdigest()

    def sequences(self, split: Split) -> int:
        """Return the number of sequences of a split."""
        return sum(shard.sequences for shard in self.manifest.splits[split])

    def fetch(self, files: Iterable[str]) -> None:
        """Fetch the files that are still missing here from object storage."""
        if self.address:
            fetch(self.address, files, self.path)

    def shards(self, split: Split) -> list[Ids]:
        """Memory-map the sequences of a split: one (sequences, length) array for each shard."""
        length, dtype = self.manifest.length, self.manifest.dtype
        return [self._map(shard.file, (shard.sequences, length), dtype) for shard in self.manifest.splits[split]]

    def documents(self, split: Split) -> list[Starts]:
        """Memory-map the starts of documents: for each shard an array (documents, 2) of sequence and offset."""
        shards = self.manifest.splits[split]
        return [self._map(shard.documents_file, (shard.documents, 2), "uint32") for shard in shards]

    def _map(self, file: str, shape: tuple[int, int], dtype: str) -> Any:
        self.fetch([file])
        path = self.path / file
        try:
            if path.is_fifo():  # reading would wait for a writer
                raise OSError("a named pipe, not a file")
            array = np.load(path, mmap_mode="r")
        except (OSError, ValueError, EOFError) as problem:  # EOFError: an empty file
            reason = getattr(problem, "strerror", None) or str(problem)
            raise DataError(f"{path}: {reason}; check with: electra corpus --verify {self.path}") from None
        found, wanted = f"{array.dtype} of shape {array.shape}", f"{dtype} of shape {shape}"
        if found != wanted:
            raise DataError(f"{path}: found {found}, but the manifest says {wanted}")
        return array


def open_corpus(path: str | Path) -> Corpus:
    """Open a corpus built by `electra corpus`; the shards of one in object storage are fetched when they are used."""
    if is_remote(path):
        fetched = open_corpus(fetch_folder(str(path), [MANIFEST, "tokenizer/*"]))
        return replace(fetched, address=str(path))
    path = Path(path).expanduser()
    try:
        values = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        known = {field.name for field in fields(Manifest)}
        if set(values) != known:
            raise ValueError(f"missing or unknown keys: {sorted(set(values) ^ known)}")
        splits = {split: [Shard(**shard) for shard in values["splits"][split]] for split in SPLITS}
        return Corpus(path, Manifest(**{**values, "splits": splits}))
    except (FileNotFoundError, NotADirectoryError):
        found, out = (f"{path} is not a corpus", "CORPUS") if path.exists() else (f"no corpus at {path}", path)
        build = f"electra corpus TEXT... --tokenizer T --length N --out {out}"
        raise DataError(f"{found}; build one with: {build}") from None
    except (OSError, ValueError, RecursionError, TypeError, AttributeError, KeyError) as problem:
        raise DataError(f"{path / MANIFEST} is not a corpus manifest: {problem}") from None


def dtype_for(vocab_size: int) -> np.dtype[np.uint16] | np.dtype[np.uint32]:
    """Return the smallest dtype that holds every id."""
    return np.dtype("<u2") if vocab_size <= 1 << 16 else np.dtype("<u4")


class ShardWriter:
    """Writes one shard row by row in constant memory; the file appears with `finish`."""

    def __init__(self, folder: Path, file: str, frame: Frame) -> None:
        self.folder = folder
        self.file = file
        self.frame = frame
        self.sequences = 0
        self.tokens = 0
        self.starts = array("I")  # pairs of sequence and offset
        self._written = partial_path(folder / file)
        self._stream = self._written.open("wb")
        self._write_header()

    def _write_header(self) -> None:
        header = {"descr": self.frame.dtype.str, "fortran_order": False, "shape": (self.sequences, self.frame.length)}
        np.lib.format.write_array_header_1_0(self._stream, header)  # numpy leaves room for a larger count

    def write(self, rows: Iterable[Row]) -> None:
        """Add sequences."""
        for row in rows:
            for offset in row.starts:
                self.starts.extend((self.sequences, offset))
            self._stream.write(row.ids.data)
            self.sequences += 1
            self.tokens += row.tokens

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def finish(self) -> Shard | None:
        """Move the shard to its final place and return it, or None if it is empty."""
        self._stream.seek(0)
        self._write_header()
        self.close()
        sync(self._written)
        if not self.sequences:
            self._written.unlink()
            return None
        starts = np.array(self.starts, "<u4").reshape(-1, 2)
        shard = Shard(self.file, self.sequences, self.tokens, len(starts), file_sha256(self._written), "")
        save_array(self.folder / shard.documents_file, starts)
        self._written.replace(self.folder / self.file)
        return replace(shard, documents_sha256=file_sha256(self.folder / shard.documents_file))


def split_off(shard: Shard, count: int, end: ShardWriter) -> tuple[Shard, Shard]:
    """Move the last sequences of a shard to the end's writer, and return both shards."""
    ids, starts = np.load(end.folder / shard.file), np.load(end.folder / shard.documents_file)
    special = [end.frame.cls_id, end.frame.sep_id, end.frame.pad_id]
    tokens = (~np.isin(ids, special)).sum(1).tolist()
    offsets: list[list[int]] = [[] for _ in ids]
    for sequence, offset in starts.tolist():
        offsets[sequence].append(offset)
    rows = [Row(*row) for row in zip(ids, tokens, map(tuple, offsets), strict=True)]
    writers = ShardWriter(end.folder, shard.file, end.frame), end
    for writer, part in zip(writers, (rows[:-count], rows[-count:]), strict=True):
        writer.write(part)
    first, last = (writer.finish() for writer in writers)
    assert first
    assert last
    return first, last
