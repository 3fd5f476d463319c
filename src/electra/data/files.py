"""Atomic writes of files and folders, checksums, and locks between processes."""

import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING, Any

from electra.errors import CheckpointError, DataError, ElectraError

if TYPE_CHECKING:
    from pydantic import BaseModel

ABANDONED = 24 * 60 * 60  # seconds after which nobody writes an unfinished file any more
PATIENCE = 10.0  # seconds to wait for a process at the other end of a named pipe


@contextmanager
def atomic_file(path: Path) -> Iterator[IO[str]]:
    """Open a temporary text file that replaces `path` on success and is removed on failure.

    Symbolic links are followed. Devices and pipes are written directly. What a kill left is removed after a day.
    """
    if path.exists() and not path.is_file():
        with open_pipe(path, "w", encoding="utf-8", newline="\n") as stream:
            yield stream
        return
    path = path.resolve() if path.is_symlink() else path
    written = path.with_name(f".{path.name}.{os.urandom(4).hex()}.partial")  # others may write it too, on any machine
    for left in path.parent.glob(f".{escape(path.name)}.{'[0-9a-f]' * 8}.partial"):
        with suppress(OSError):  # it is gone, or of another user
            if left.is_file() and time.time() - left.stat().st_mtime > ABANDONED:
                left.unlink()
    try:
        with written.open("w", encoding="utf-8", newline="\n") as stream:  # the same bytes on every system
            yield stream
        sync(written)
        written.replace(path)
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def open_pipe(path: Path, mode: str, **options: Any) -> IO[Any]:
    """Open a named pipe; one without a process at its other end would block forever."""
    opened: Future[IO[Any]] = Future()

    def wait() -> None:
        try:
            opened.set_result(path.open(mode, **options))
        except OSError as problem:
            opened.set_exception(problem)

    Thread(target=wait, daemon=True).start()  # may never end
    try:
        return opened.result(PATIENCE)
    except TimeoutError:
        raise DataError(f"no process uses the other end of the pipe {path}; start one, or give a file") from None


def write_atomically(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic_file(path) as stream:
        stream.write(text)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file atomically."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    write_atomically(path, text.encode(errors="backslashreplace").decode())  # file names may hold lone surrogates


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file atomically, with a checksum of its own content."""
    write_json(path, {"sha256": _seal(content), "content": content})


def read_sealed(path: Path) -> dict[str, Any] | None:
    """Return what `write_sealed` wrote, or None if the file is missing or damaged."""
    if not path.is_file():
        return None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        content: dict[str, Any] = found["content"]
        return content if _seal(content) == found["sha256"] else None
    except (ValueError, RecursionError, TypeError, KeyError):
        return None


def _seal(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def to_json(content: Any, **options: Any) -> str:
    """Return a result as JSON; numbers that are not finite, which JSON does not have, become null."""
    return json.dumps(_finite(content), allow_nan=False, **options)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_table(
    path: Path, what: str, error: type[ElectraError], form: "type[BaseModel] | None" = None
) -> dict[str, Any]:
    """Read a JSON file that holds an object, with the types of `form` if given; raise `error` for anything else."""
    from pydantic import ValidationError  # slow to import

    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(found, dict):
            raise ValueError(f"it holds a {type(found).__name__}, not an object")
        if form:
            form.model_validate(found, strict=True)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise error(f"{path} is not {what}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, RecursionError) as problem:  # also for text that is not UTF-8, and deeply nested brackets
        raise error(f"{path} is not {what}: {problem}") from None
    return found


def read_first(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in the first line of a file, or None if there is none."""
    with path.open(encoding="utf-8", errors="replace") as lines, suppress(ValueError, RecursionError):
        found = json.loads(lines.readline())
        return found if isinstance(found, dict) else None
    return None


@contextmanager
def atomic_folder(
    out: Path, overwrite: bool = False, unless: Callable[[Path, Path], bool] | None = None
) -> Iterator[Path]:
    """Create a temporary folder that becomes `out` on success.

    It is removed on failure, or if `unless(temporary, out)` says that the old one stays.
    """
    out = out.expanduser().resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    refusal = CheckpointError(f"another process is writing {out}; wait for it or choose another --out")
    written = partial_path(out)
    with locked(lock_path(out), refusal):
        recover(out)
        if not overwrite and out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise CheckpointError(f"{out} already exists; choose another --out or remove it")
        shutil.rmtree(written, ignore_errors=True)  # left by a killed process
        written.mkdir()
        try:
            yield written
            if unless and unless(written, out):
                shutil.rmtree(written)
                return
            for path in written.rglob("*"):
                sync(path)
            replace_folder(written, out)
        except BaseException:
            shutil.rmtree(written, ignore_errors=True)
            recover(out)
            raise


def replace_folder(written: Path, out: Path) -> None:
    """Move a complete folder to `out`; what is there is kept under a hidden name until the new one is on disk."""
    old = replaced_path(out)
    if out.exists():
        shutil.rmtree(old, ignore_errors=True)
        out.rename(old)
    written.rename(out)
    sync(out.parent)
    shutil.rmtree(old, ignore_errors=True)


def recover(out: Path) -> None:
    """Put back what `replace_folder` was replacing when it was killed, or remove it if it had been replaced."""
    old = replaced_path(out)
    if old.exists() and not out.exists():
        old.rename(out)
    shutil.rmtree(old, ignore_errors=True)


def save_array(path: Path, array: Any) -> None:
    """Write a numpy file in place of whatever is there, and wait until it is on disk."""
    import numpy as np  # slow to import

    path.unlink(missing_ok=True)  # a named pipe would be waited for
    np.save(path, array)
    sync(path)


def begins_without(path: Path, mark: str) -> bool:
    """Return whether a non-empty file has no such mark in its first kilobyte, so as not to overwrite it."""
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as stream:
        return mark.encode() not in stream.read(1024)


def exists(name: str | Path) -> bool:
    """Return whether a file or folder exists; any text is accepted, even one too long for a file name."""
    try:
        return Path(name).expanduser().exists()
    except (OSError, RuntimeError, ValueError):  # too long; ~ of an unknown user; a null byte
        return False


def partial_path(path: Path) -> Path:
    """Return the hidden path under which `path` is written until it is complete."""
    return path.with_name(f".{path.name}.partial")


def replaced_path(path: Path) -> Path:
    """Return the hidden path of a folder while `path` is replaced by another."""
    return path.with_name(f".{path.name}.old")


def lock_path(path: Path) -> Path:
    """Return the path of the lock file for writing `path`."""
    return path.with_name(f".{path.name}.lock")


def sync(path: Path) -> None:
    """Wait until a file, or a folder's list of files, is on disk."""
    windows = os.name == "nt"
    if windows and path.is_dir():  # Windows cannot open folders
        return
    descriptor = os.open(path, os.O_RDWR if windows else os.O_RDONLY)  # Windows needs write access
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def differing_files(folder: Path, expected: Mapping[str, str]) -> list[str]:
    """Return the files that are missing or do not have the expected SHA-256 checksum."""

    def differs(file: str) -> bool:
        return not (folder / file).is_file() or file_sha256(folder / file) != expected[file]

    with ThreadPoolExecutor() as threads:  # hashing releases the GIL
        return [file for file, different in zip(expected, threads.map(differs, expected), strict=True) if different]


def fingerprint(parts: Iterable[bytes | memoryview]) -> str:
    """Return a 128-bit hash of the concatenated parts in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


@contextmanager
def locked(path: Path, refusal: ElectraError) -> Iterator[None]:
    """Hold a lock file, or raise `refusal` if another process holds it; the system releases it when the process dies.

    The lock file is never removed: a process that already had it open would then hold a lock that nobody else sees.
    """
    from filelock import FileLock, Timeout  # slow to import

    try:
        held = FileLock(path).acquire(timeout=0)
    except Timeout:
        raise refusal from None
    with held:
        yield
