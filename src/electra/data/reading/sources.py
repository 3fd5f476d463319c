"""Where text comes from: files, folders, globs, standard input, remote paths and hub datasets."""

import bz2
import glob
import gzip
import io
import lzma
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from electra.data.files import is_there
from electra.data.settings import Format
from electra.errors import DataError

FORMATS: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
}
CHUNK_BYTES = 1 << 20
PACKED = (".gz", ".xz", ".bz2", ".zst")
LOOKED_FOR = ".txt .jsonl .csv .tsv .parquet, plain or .gz .xz .bz2 .zst"


@dataclass(frozen=True)
class Source:
    """One stream of text: a file, standard input (`-`), a remote address or a dataset of the hub."""

    name: str
    format: Format
    size: int | None = None  # bytes as stored, where that is known

    @property
    def remote(self) -> bool:
        """Say whether `fsspec` has to open it."""
        return "://" in self.name


def names_of(sources: str | Path | Sequence[str | Path]) -> list[str]:
    """Give the names of one source or of several."""
    return [str(name) for name in ([sources] if isinstance(sources, str | Path) else sources)]


def find_sources(names: Sequence[str | Path], format: Format | None = None) -> tuple[list[Source], list[str]]:
    """Give the sources that the names mean, in order, and the files of folders that are no text."""
    sources: list[Source] = []
    ignored: list[str] = []
    for name in map(str, names):
        if not name.strip():
            raise DataError("a text was named with an empty name; is a variable of the shell not set?")
        if name == "-":
            sources.append(Source("-", format or "text"))
        elif "://" in name:
            sources += _find_remote(name, format)
        elif Path(name).expanduser().is_dir():
            found, others = _find_in_folder(Path(name).expanduser(), format)
            sources += found
            ignored += others
        else:
            sources += _find_files(name, format)
    if not sources:
        raise DataError("no text was named; give files, folders, globs, - for standard input, or a hub dataset")
    return sources, ignored


def is_dataset(name: str) -> bool:
    """Tell whether a name is that of a dataset of the hub, OWNER/NAME[:CONFIG[:SPLIT]], and nothing on this machine."""
    written = re.fullmatch(r"\w[\w.-]*/[\w.-]+(:[\w.-]*){0,2}", name) is not None
    return written and not _format_of(name) and not is_there(name)


def _find_in_folder(folder: Path, format: Format | None) -> tuple[list[Source], list[str]]:
    chosen: list[Source] = []
    ignored: list[str] = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_symlink() and path.is_dir() and not hidden:
            ignored.append(str(path))
        if hidden or not path.is_file():
            continue
        textual = format or (_format_of(path.name) and ".json" not in path.suffixes)  # settings more often than text
        if textual and not _is_ours(path, folder):
            chosen.append(_local(path, format))
        else:
            ignored.append(str(path))
    if not chosen:
        ours = any(_is_ours(Path(path), folder) for path in ignored)
        hint = "; a corpus, a tokenizer, a model or a run is none" if ours else ""
        raise DataError(f"no text in the folder {folder}{hint}; looked for {LOOKED_FOR}")
    return chosen, ignored


def _is_ours(path: Path, folder: Path) -> bool:
    """Tell files that `electra` or a library wrote from texts: a vocabulary's, and all of a run's folder."""
    if path.name in ("vocab.txt", "merges.txt") and (path.parent / "tokenizer_config.json").is_file():
        return True
    within = [place for place in path.parents if place.is_relative_to(folder)]
    return any((place / "config.toml").is_file() and _holds_a_run(place) for place in within)


def _holds_a_run(place: Path) -> bool:
    return any((place / name).exists() for name in ("metrics.jsonl", "seeds"))


def _find_files(name: str, format: Format | None) -> list[Source]:
    path = Path(name).expanduser()
    if path.exists():
        return [_local(path, format)]
    if glob.has_magic(name):
        paths = [Path(found) for found in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207 (may be absolute)
        files = [found for found in paths if found.is_file()]
        if not files:
            raise DataError(f"no file matches {name}")
        return [_local(found, format) for found in files]
    if is_dataset(name):
        return [Source(name, "dataset")]
    raise DataError(f"no file or folder {name}; a dataset of the hub is written OWNER/NAME[:CONFIG[:SPLIT]]")


def _find_remote(address: str, format: Format | None) -> list[Source]:
    import fsspec

    with readable(address):
        filesystem, path = fsspec.core.url_to_fs(address)
        if filesystem.isdir(path):
            paths = [found for found in sorted(filesystem.find(path)) if format or _format_of(found)]
        else:
            paths = sorted(filesystem.glob(path))
        if not paths:
            raise DataError(f"no text at {address}; looked for {LOOKED_FOR}")
        return [
            Source(filesystem.unstrip_protocol(found), format or _format_of(found) or "text", filesystem.size(found))
            for found in paths
        ]


def _local(path: Path, format: Format | None) -> Source:
    size = path.stat().st_size if path.is_file() else None  # a pipe has no size
    return Source(str(path), format or _format_of(path.name) or "text", size)


def _format_of(name: str) -> Format | None:
    path = Path(name)
    return FORMATS.get((path.with_suffix("") if path.suffix.lower() in PACKED else path).suffix.lower())


@contextmanager
def readable(name: str, begins: str = "cannot read {name}") -> Iterator[None]:
    """Turn whatever goes wrong while reading into the one line that names the source."""
    try:
        yield
    except DataError:
        raise
    except ImportError as problem:
        hint = "; pip install -e '.[text]' in the checkout brings it" if problem.name in ("datasets", "pyarrow") else ""
        raise DataError(f"reading {name} needs another package: {problem}{hint}") from None
    except Exception as problem:  # every format and file system has errors of its own
        reason = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
        raise DataError(f"{begins.format(name=name)}: {' '.join(reason.split())}") from None


class _Counted(io.RawIOBase):
    """A stream that tells how many bytes of it were read."""

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
    """Open a source as it is stored."""
    if source.name == "-":
        yield sys.stdin.buffer
    elif source.remote:
        import fsspec

        with fsspec.open(source.name, "rb") as stream:
            yield stream
    else:
        with Path(source.name).open("rb") as stream:
            yield stream


def read_chunks(source: Source, count: Callable[[int], None]) -> Iterator[bytes]:
    """Read a source as plain bytes, compression undone; `count` is told of the bytes as they are stored."""
    with ExitStack() as stack:
        with readable(source.name):
            stream = _unpacked(stack.enter_context(open_raw(source)), count)
        while True:
            with readable(source.name):
                chunk = stream.read(CHUNK_BYTES)
            if not chunk:
                return
            yield chunk


def _unpacked(stream: IO[bytes], count: Callable[[int], None]) -> IO[bytes]:
    buffered = io.BufferedReader(_Counted(stream, count), buffer_size=CHUNK_BYTES)
    magic = buffered.peek(6)[:6]  # not the file's name: standard input has none
    if magic.startswith(b"\x1f\x8b"):
        return cast(IO[bytes], gzip.GzipFile(fileobj=buffered))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return lzma.LZMAFile(buffered)
    if magic.startswith(b"BZh"):
        return bz2.BZ2File(buffered)
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        import pyarrow  # the zstandard package takes a file that was cut short for whole

        return cast(IO[bytes], pyarrow.CompressedInputStream(buffered, "zstd"))
    return buffered
