"""Checksums of the files in a folder, in a file that Hugging Face ignores."""

from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from electra.data.files import file_sha256, read_table, write_json
from electra.errors import CheckpointError

CHECKSUMS = "checksums.json"  # SHA-256 by file name
EDITED = ("README.md",)


def write_checksums(folder: Path) -> None:
    """Write the checksums of the files in a folder, except those that users edit."""
    found = sorted(path for path in folder.iterdir() if path.is_file() and path.name not in (CHECKSUMS, *EDITED))
    write_json(folder / CHECKSUMS, {path.name: file_sha256(path) for path in found})


def check(folder: Path, patterns: Iterable[str] = ("*",)) -> None:
    """Raise an error if a matching file has changed or is missing; files without a checksum are not checked."""
    listed = folder / CHECKSUMS
    known = read_table(listed, "a list of checksums", CheckpointError) if listed.is_file() else {}
    for name, expected in known.items():
        path = folder / name
        if not any(fnmatch(name, pattern) for pattern in patterns):
            continue
        if not path.is_file() or file_sha256(path) != expected:
            state = "has changed since it was written" if path.is_file() else "is missing"
            raise CheckpointError(f"{path} {state}; restore it, or delete {listed} if the change was intended")


def is_intact(folder: Path) -> bool:
    """Return whether a folder has checksums, and all files that they, and those in folders inside it, list match."""
    try:
        for listed in (sums := [*folder.rglob(CHECKSUMS)]):
            check(listed.parent)
    except CheckpointError:
        return False
    return folder / CHECKSUMS in sums


def is_already(written: Path, out: Path) -> bool:
    """Return whether `out` holds an intact copy of a folder, whatever else users have put there."""
    sums = [listed.relative_to(written) for listed in written.rglob(CHECKSUMS)]
    return is_intact(out) and all(
        (out / listed).is_file() and (out / listed).read_bytes() == (written / listed).read_bytes() for listed in sums
    )
