"""Find and open sources of text: files, folders, globs, standard input, URLs and hub datasets."""

import bz2
import glob
import gzip
import io
import lzma
import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePath, PurePosixPath
from typing import IO, Any, NoReturn, TypeVar, cast

from electra.data.files import exists, open_pipe
from electra.data.settings import Format
from electra.data.storage import is_remote
from electra.errors import DataError, explained

Item = TypeVar("Item")

FORMATS: dict[str, Format] = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl"}
FORMATS |= {".csv": "csv", ".tsv": "tsv", ".parquet": "parquet"}
CHUNK_BYTES = 1 << 20
PACKED = (".gz", ".xz", ".bz2", ".zst")
BZIP2 = re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)")  # text may begin with BZh; the second is an empty file
MADE = (  # files that identify folders we wrote: a run, a fine-tuning run, a corpus, an unfinished build
    ("config.toml", "metrics.jsonl"),
    ("config.toml", "seeds"),
    ("manifest.json", "train-00000.npy"),
    ("settings.json", "corpus", "groups"),
)
TOKENIZER_FILES = frozenset(  # and of a model next to it
    "tokenizer_config.json tokenizer.json vocab.txt vocab.json merges.txt added_tokens.json special_tokens_map.json "
    "report.json config.json model.safetensors checksums.json".split()
)
LOOKED_FOR = ".txt .jsonl .csv .tsv .parquet, plain or .gz .xz .bz2 .zst"


@dataclass(frozen=True)
class Source:
    """A source of text: a file, standard input (`-`), a URL or a hub dataset."""

    name: str
    format: Format
    size: int | None = None  # bytes as stored, if known

    @property
    def remote(self) -> bool:
        """Return whether the source is opened with `fsspec`."""
        return is_remote(self.name)


def names_of(sources: str | Path | Sequence[str | Path]) -> list[str]:
    """Return the names of one or more sources."""
    return [str(name) for name in ([sources] if isinstance(sources, str | Path) else sources)]


def find_sources(names: Sequence[str | Path], format: Format | None = None) -> tuple[list[Source], list[str]]:
    """Return the sources in order without duplicates, and the ignored files: duplicates and files that are not text."""
    sources: list[Source] = []
    ignored: list[str] = []
    for name in map(str, names):
        if not name.strip():
            raise DataError("the name of a text is empty; is a shell variable not set?")
        found, others = _find_remote(name, format) if is_remote(name) else _find_local(name, format)
        sources += found
        ignored += others
    if not sources:
        raise DataError("no text given; use files, folders, globs, - for standard input, or a hub dataset")
    once: dict[str | Path, Source] = {}
    for source in sources:
        file = source.size is not None and not source.remote
        if once.setdefault(Path(source.name).resolve() if file else source.name, source) is not source:
            ignored.append(f"{source.name} (already read)")
    return list(once.values()), ignored


def is_dataset(name: str) -> bool:
    """Return whether a name has the form of a hub dataset, OWNER/NAME[:CONFIG[:SPLIT]], and is not a local file."""
    written = re.fullmatch(r"\w[\w.-]*/[\w.-]+(:[\w.-]*){0,2}", name) is not None
    return written and not _format_of(name) and not exists(name)


def _find_local(name: str, format: Format | None) -> tuple[list[Source], list[str]]:
    if name == "-":
        return [Source("-", format or "text")], []
    path = Path(os.path.expanduser(name))  # noqa: PTH111 (keeps the ~ of an unknown user)
    if path.is_dir():
        return _find_among([], [path], f"the folder {path}", format)
    if path.exists():
        return [_local(path, format)], []
    if glob.has_magic(name):
        paths = [Path(found) for found in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 (may be absolute)
        files, folders = [found for found in paths if found.is_file()], [found for found in paths if found.is_dir()]
        if files or folders:
            return _find_among(files, folders, name, format, deep="**" not in name)  # ** matches the files in them too
        raise DataError(f"no file matches {name}")
    if is_dataset(name):
        return [Source(name, "dataset")], []
    raise DataError(f"no file or folder {name}; a hub dataset is given as OWNER/NAME[:CONFIG[:SPLIT]]")


def _find_among(
    given: Sequence[Path], folders: Sequence[Path], where: str, format: Format | None, deep: bool = True
) -> tuple[list[Source], list[str]]:
    """Return the texts among given files and, if `deep`, in folders, judged by their names; and what is ignored."""
    files, links = [*given], []
    places = [*folders, *{place for path in given for place in path.parents}]
    for folder in folders if deep else ():
        for place, inner, names in os.walk(folder, onerror=_refuse):
            inner[:] = [name for name in inner if not name.startswith(".")]
            below = [Path(place, name) for name in inner]
            places += below
            links += [path for path in below if path.is_symlink()]
            files += [path for name in names if not name.startswith(".") and (path := Path(place, name)).is_file()]
    texts = _texts_among(files, places, where, format, given)
    ignored = {*files, *links} - texts
    return [_local(path, format) for path in sorted(files) if path in texts], [str(path) for path in sorted(ignored)]


def _refuse(problem: OSError) -> NoReturn:
    raise problem


def _texts_among(
    files: Collection[PurePath],
    places: Collection[PurePath],
    where: str,
    format: Format | None,
    given: Collection[PurePath] = (),
) -> set[PurePath]:
    """Return the given files and those that are text by their names, without what electra or a library wrote."""
    made = _made(files, places)
    named = {path for path in files if _format_of(path.name) and ".json" not in path.suffixes}  # .json: often settings
    texts = (set(files) if format else named | set(given)) - made
    if not texts:
        hint = " (corpora, tokenizers, models and runs are ignored)" if made else ""
        raise DataError(f"no text in {where}{hint}; looked for {LOOKED_FOR}")
    return texts


def _made(files: Collection[PurePath], places: Collection[PurePath]) -> set[PurePath]:
    """Return the files that electra or a library wrote: tokenizers, and everything in runs and corpora."""
    known = {*files, *places}
    ours = {place for place in places if any(all(place / name in known for name in names) for names in MADE)}
    return {
        path
        for path in files
        if (path.name in TOKENIZER_FILES and path.with_name("tokenizer_config.json") in known)
        or not ours.isdisjoint(path.parents)
    }


def _find_remote(address: str, format: Format | None) -> tuple[list[Source], list[str]]:
    import fsspec

    with readable(address):
        filesystem, path = fsspec.core.url_to_fs(address)
        ignored: list[str] = []
        if filesystem.isdir(path):
            visible = [name for name in sorted(filesystem.find(path)) if "/." not in f"/{name.removeprefix(path)}"]
            files = {PurePosixPath(name): name for name in visible}
            places = {place for file in files for place in file.parents}
            texts = _texts_among(files, places, f"the folder {address}", format)
            found = [name for file, name in files.items() if file in texts]
            ignored = [name for file, name in files.items() if file not in texts]
        else:
            found = sorted(filesystem.glob(path))
        if not found:
            raise DataError(f"no text at {address}; looked for {LOOKED_FOR}")
        sources = [
            Source(filesystem.unstrip_protocol(name), format or _format_of(name) or "text", filesystem.size(name))
            for name in found
        ]
        return sources, [filesystem.unstrip_protocol(name) for name in ignored]


def _local(path: Path, format: Format | None) -> Source:
    if path.is_char_device() or path.is_block_device():
        raise DataError(f"{path} is a device, not a text; give a file, a folder, or - for standard input")
    size = path.stat().st_size if path.is_file() else None  # a pipe has no size
    return Source(str(path), format or _format_of(path.name) or "text", size)


def _format_of(name: str) -> Format | None:
    path = Path(name)
    return FORMATS.get((path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower())


def readable(name: str, begins: str = "cannot read {name}") -> AbstractContextManager[None]:
    """Turn any error while reading into a one-line error that names the source."""
    return explained(name, begins.format(name=name), DataError)


def each(items: Iterator[Item], name: str) -> Iterator[Item]:
    """Yield the items that are read from a source; any error becomes a one-line error that names it."""
    while True:
        with readable(name):
            try:
                item = next(items)
            except StopIteration:
                return
        yield item


class _Counted(io.RawIOBase):
    """A stream that reports how many bytes were read."""

    def __init__(self, stream: IO[bytes], count: Callable[[int], None]) -> None:
        self.stream = stream
        self.count = count

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.stream.read(len(buffer))
        buffer[: len(data)] = data
        self.count(len(data))
        return len(data)


@contextmanager
def open_raw(source: Source) -> Iterator[IO[bytes]]:
    """Open a source for reading its stored bytes."""
    if source.name == "-":
        if sys.stdin is None:
            raise DataError("standard input is closed; pipe a text into it or give a file")
        yield sys.stdin.buffer
    elif source.remote:
        import fsspec

        with fsspec.open(source.name, "rb") as stream:
            yield stream
    else:
        path = Path(source.name)
        with open_pipe(path, "rb") if path.is_fifo() else path.open("rb") as stream:
            yield stream


def read_chunks(source: Source, count: Callable[[int], None] = lambda size: None) -> Iterator[bytes]:
    """Yield the decompressed bytes of a source; `count` is called with the number of stored bytes read."""
    with ExitStack() as stack:
        with readable(source.name):
            stream = _unpacked(stack.enter_context(open_raw(source)), count)
        yield from each(iter(partial(stream.read, CHUNK_BYTES), b""), source.name)


def _unpacked(stream: IO[bytes], count: Callable[[int], None]) -> IO[bytes]:
    buffered = io.BufferedReader(_Counted(stream, count), buffer_size=CHUNK_BYTES)
    magic = buffered.peek(10)[:10]  # not the file name, which standard input lacks
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=buffered))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(buffered)
    if BZIP2.match(magic):
        return bz2.BZ2File(buffered)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow  # the zstandard package does not detect truncated files

        return cast(IO[bytes], pyarrow.CompressedInputStream(buffered, "zstd"))
    return buffered
