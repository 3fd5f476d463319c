"""Folders in object storage (`s3://`, `gs://`, `hf://`, whatever fsspec opens), and their copies on this machine.

    CACHE/read/s3/bucket/key/VERSION/   models and corpora that were fetched; a changed one gets another VERSION
    CACHE/work/s3/bucket/key/           working copies of folders that are written; the storage is what counts

CACHE is `$ELECTRA_CACHE/electra-cache`, a folder of its own, since the files used least recently are removed from it as
soon as it holds more than `$ELECTRA_CACHE_GB`.
Lost connections are retried by the file systems themselves.
"""

import hashlib
import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from fnmatch import fnmatch
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from electra.data.files import locked, partial_path, read_sealed, write_sealed
from electra.errors import ElectraError, Stopped, StorageError, explained

LIMIT_GB = 200.0  # of the cache, unless ELECTRA_CACHE_GB says otherwise
LOCK = ".copy.lock"  # ends the name of the lock next to a working copy
MARK = ".electra"  # in a folder of the storage that electra writes
SEALS = ("state.json", "checksums.json", "manifest.json")  # uploaded last: a folder without its seal is not complete
MOST_NAMED = 3  # files that an error says are missing
VERSIONS = ("ETag", "etag", "generation", "blob_id", "content_md5", "mtime", "created")  # of a file, by file system
_working: dict[Path, "_WorkingCopy"] = {}  # those in use by this process


class Stored(NamedTuple):
    """A file in the storage."""

    size: int
    version: str  # changes with the content


def is_remote(name: str | Path) -> bool:
    """Return whether a name is an address in object storage."""
    return "://" in str(name)


def local_path(name: str | Path) -> Path:
    """Return the path of a local name, or the path of the working copy of an address."""
    return _cached("work", str(name)) if is_remote(name) else Path(name).expanduser()


def inside(name: str | Path, part: str) -> str:
    """Return the name of a file or folder inside a folder, which may be an address."""
    return f"{str(name).rstrip('/')}/{part}" if is_remote(name) else str(Path(name) / part)


def list_files(address: str) -> dict[str, Stored]:
    """Return the files below an address by their relative names; an address without files has none."""
    with reached(address):
        filesystem, root = _opened(address)
        filesystem.invalidate_cache()
        with suppress(FileNotFoundError):
            found = filesystem.find(root, detail=True)
            return {
                name: Stored(info["size"], " ".join(str(info[key]) for key in VERSIONS if info.get(key)))
                for path, info in sorted(found.items())
                if (name := path.removeprefix(root.rstrip("/")).lstrip("/"))
            }
    return {}


def fetch_folder(address: str, patterns: Collection[str]) -> Path:
    """Return a local copy of the files below an address that match; each version of them has its own folder."""
    listed = list_files(address)
    found = {name: listed[name] for name in listed if any(_matches(name, pattern) for pattern in patterns)}
    if not found:
        wanted = ", ".join([*patterns][:MOST_NAMED]) + (" …" if len(patterns) > MOST_NAMED else "")
        what = f"{min(listed)} and none of {wanted}" if listed else "no files"
        raise StorageError(f"{address} holds {what}")
    version = hashlib.sha256(repr(found).encode()).hexdigest()[:16]
    folder = _cached("read", address) / version
    fetch(address, found, folder)
    return folder


def fetch_config(name: str) -> str:
    """Return the path of a local copy of a config, or of a run's, in object storage; other names as they are."""
    if not is_remote(name):
        return name
    folder, _, file = (name if name.endswith(".toml") else inside(name, "config.toml")).rpartition("/")
    return str(fetch_folder(folder, [file]) / file)


def fetch(address: str, names: Iterable[str], folder: Path) -> None:
    """Fetch the files that a local copy lacks; all of them must fit into the cache."""
    from filelock import FileLock

    names = list(names)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock"):  # other processes may need the same files
        missing = [name for name in names if not (folder / name).is_file()]
        for name in names:
            with suppress(FileNotFoundError):
                os.utime(folder / name)  # it was used
        if missing:
            listed = list_files(address)
            if absent := [name for name in missing if name not in listed]:
                raise StorageError(f"{address} lacks {absent[0]}")
            _check_room(address, sum(listed[name].size for name in names if name in listed))
            _download(address, {name: listed[name] for name in missing}, folder)


@contextmanager
def working_copy(out: str | Path, *, pulls: bool = True, pushes: bool = True) -> Iterator[Path]:
    """Yield `local_path(out)`, and keep it equal to the folder that `out` names if that is in object storage.

    The storage is what counts: what a killed process had not uploaded is dropped. `pulls`: for one process of each
    machine; `pushes`: for the one that writes. `upload` uploads finished parts, the end of the block the rest.
    """
    folder = local_path(out)
    if not is_remote(out) or not pulls or any(folder.is_relative_to(used) for used in _working):
        yield folder
        return
    copy = _working[folder] = _WorkingCopy(str(out).rstrip("/"), folder, pushes)
    folder.parent.mkdir(parents=True, exist_ok=True)
    refusal = StorageError(f"another process on this machine is writing {out}; wait for it or choose another out")
    try:
        with locked(copy.lock, refusal):
            copy.pull()
            try:
                yield folder
            except Stopped:
                copy.push()
                raise
            copy.push()
    except ElectraError as problem:
        problem.args = (str(problem).replace(str(folder), copy.address), *problem.args[1:])
        raise
    finally:
        del _working[folder]


def upload(path: Path) -> None:
    """Upload the finished files of the working copy that a path is in, if it is in one."""
    for folder, copy in _working.items():
        if path.is_relative_to(folder):
            copy.push()


def copy_files(source: str, target: str) -> None:
    """Copy all files from one address to another inside the storage, their seals last."""
    with reached(target):
        filesystem, root = _opened(source)
        _, place = _opened(target)
        for batch in _in_order(list_files(source)):
            filesystem.copy([f"{root}/{name}" for name in batch], [f"{place}/{name}" for name in batch])


def reached(address: str) -> AbstractContextManager[None]:
    """Turn any error of a file system into a one-line error that names the address."""
    return explained(address, f"cannot use {address}", StorageError)


class _WorkingCopy:
    """The local copy of a folder that is written, and what is known of both since they were last equal."""

    def __init__(self, address: str, folder: Path, pushes: bool) -> None:
        self.address, self.folder, self.pushes = address, folder, pushes
        self.record = folder.with_name(f".{folder.name}.copy.json")
        self.lock = folder.with_name(f".{folder.name}{LOCK}")

    def pull(self) -> None:
        """Make the working copy equal to the storage; refuse a folder that electra did not write."""
        found = list_files(self.address)
        marks = {name for name in found if name.split("/")[-1] == MARK}  # also of folders that were written before
        if found and not marks:
            raise StorageError(f"{self.address} holds {min(found)}, but no files of electra; choose another out")
        if self.pushes and MARK not in found:
            with reached(self.address):
                filesystem, root = _opened(self.address)
                filesystem.pipe_file(f"{root}/{MARK}", b"electra writes this folder\n")  # shows early that it may
        found = {name: found[name] for name in found.keys() - marks}
        known = read_sealed(self.record) or {}
        equal = {name for name, state in self._states().items() if known.get(name) == [_version(found, name), state]}
        for name in self._states().keys() - equal:
            (self.folder / name).unlink()
        _check_room(self.address, sum(stored.size for stored in found.values()))
        _download(self.address, {name: found[name] for name in found.keys() - equal}, self.folder)
        self._remember(found, self._states())

    def push(self) -> None:
        """Upload what changed, seals last, then remove what is gone."""
        if not self.pushes:
            return
        known, states, found = read_sealed(self.record) or {}, self._states(), list_files(self.address)
        if changed := [name for name, (version, _) in known.items() if version != _version(found, name)]:
            raise StorageError(f"another machine writes {self.address} too: it changed {changed[0]}; stop one of them")
        differing = [name for name, state in states.items() if name not in known or known[name][1] != state]
        gone = known.keys() - states.keys() | (set() if states else {MARK})
        with reached(self.address):
            filesystem, root = _opened(self.address)
            for names in _in_order(differing):
                filesystem.put([str(self.folder / name) for name in names], [f"{root}/{name}" for name in names])
            if gone:
                filesystem.rm([f"{root}/{name}" for name in gone])
        self._remember(list_files(self.address), states)  # not of now: another thread may have written meanwhile

    def _states(self) -> dict[str, str]:
        """Return what changes when a file of the working copy does, without hidden files, which are not finished."""
        found = {}
        for place, folders, names in os.walk(self.folder):
            folders[:] = [name for name in folders if not name.startswith(".")]
            for path in (Path(place, name) for name in names if not name.startswith(".")):
                stat = path.stat()
                found[path.relative_to(self.folder).as_posix()] = f"{stat.st_size} {stat.st_mtime_ns}"
        return found

    def _remember(self, stored: dict[str, Stored], states: dict[str, str]) -> None:
        """Write down the versions in the storage and the states here that are equal."""
        write_sealed(self.record, {name: [_version(stored, name), state] for name, state in states.items()})


def _matches(name: str, pattern: str) -> bool:
    return name.count("/") == pattern.count("/") and fnmatch(name, pattern)


def _version(stored: dict[str, Stored], name: str) -> str | None:
    return stored[name].version if name in stored else None


def _opened(address: str) -> tuple[Any, str]:
    """Return the file system of an address, and the path there."""
    import fsspec

    options = {"auto_mkdir": True} if address.startswith("file:") else {}  # storage has no folders to make
    filesystem, root = fsspec.core.url_to_fs(address, **options)
    return filesystem, root.rstrip("/")


def _cache() -> Path:
    named = os.environ.get("ELECTRA_CACHE")
    return Path(f"{named}/electra-cache" if named else "~/.cache/electra").expanduser().resolve()


def _cached(kind: str, address: str) -> Path:
    protocol, _, rest = address.partition("://")
    return _cache().joinpath(kind, protocol, *(part for part in rest.split("/") if part not in ("", ".", "..")))


def _in_order(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield the files in batches that are written one after the other: seals after the rest, outer seals last."""

    def rank(name: str) -> int:
        *folders, last = name.split("/")
        return 1 + max(0, 9 - len(folders)) if last in SEALS else 0

    for _, batch in groupby(sorted(names, key=rank), rank):
        yield list(batch)


def _download(address: str, wanted: dict[str, Stored], folder: Path) -> None:
    """Fetch files into a folder, each under a hidden name until it is complete."""
    if not wanted:
        return
    _make_room(sum(stored.size for stored in wanted.values()))
    written = {name: partial_path(folder / name) for name in wanted}
    for path in written.values():
        path.parent.mkdir(parents=True, exist_ok=True)
    with reached(address):
        filesystem, root = _opened(address)
        filesystem.get([f"{root}/{name}" for name in written], [str(path) for path in written.values()])
        for name, path in written.items():
            if path.stat().st_size != wanted[name].size:
                raise OSError(f"{name} arrived incomplete; run the same command again")
            path.replace(folder / name)


def _limit() -> float:
    """Return how many bytes the cache may hold."""
    said = os.environ.get("ELECTRA_CACHE_GB") or LIMIT_GB
    try:
        return float(said) * 1e9
    except ValueError:
        raise StorageError(f"ELECTRA_CACHE_GB={said} is not a number of gigabytes") from None


def _check_room(address: str, needed: int) -> None:
    """Raise an error if files that are needed at the same time are larger than the cache may be."""
    if needed > _limit():
        raise StorageError(
            f"{address} needs {needed / 1e9:,.1f} GB, but {_cache()} may hold {_limit() / 1e9:,.1f} GB; "
            "set ELECTRA_CACHE_GB to more, and ELECTRA_CACHE to a disk with enough room"
        )


def _make_room(needed: int) -> None:
    """Remove the files used least recently until the needed bytes fit; those of working copies in use stay."""
    paths = (path for path in _cache().rglob("*") if not path.name.startswith(".") or path.suffix == ".partial")
    files = [(path, path.stat()) for path in paths if path.is_file()]
    excess = sum(stat.st_size for _, stat in files) + needed - _limit()
    if excess <= 0:
        return
    with _unused_held() as used:
        for path, stat in sorted(files, key=lambda pair: pair[1].st_mtime):
            if excess > 0 and not any(path.is_relative_to(folder) for folder in used):
                path.unlink(missing_ok=True)
                excess -= stat.st_size


@contextmanager
def _unused_held() -> Iterator[list[Path]]:
    """Lock all working copies that no process uses, and yield the others."""
    from filelock import FileLock, Timeout

    used = []
    with ExitStack() as stack:
        for lock in _cache().rglob(f".*{LOCK}"):
            try:
                stack.enter_context(FileLock(lock, timeout=0))
            except Timeout:
                used.append(lock.with_name(lock.name[1:].removesuffix(LOCK)))
        yield used
