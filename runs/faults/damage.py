"""Damage to a file: what disks, copies and accidents do to it."""

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path


def remove(path: Path) -> None:
    """Remove a file or folder, if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def flipped(path: Path, chance: random.Random) -> None:
    """Flip a few bits."""
    content = bytearray(path.read_bytes() or b"\0")
    for _ in range(chance.choice((1, 1, 1, 8))):
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def truncated(path: Path, chance: random.Random) -> None:
    """Lose the end."""
    os.truncate(path, chance.randrange(max(1, path.stat().st_size)))


def emptied(path: Path, chance: random.Random) -> None:
    """Lose the content."""
    path.write_bytes(b"")


def deleted(path: Path, chance: random.Random) -> None:
    """Lose the file."""
    path.unlink()


def zeroed(path: Path, chance: random.Random) -> None:
    """Lose a block, as after a crash of the system."""
    content = bytearray(path.read_bytes())
    start = chance.randrange(max(1, len(content)))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    path.write_bytes(content)


def extended(path: Path, chance: random.Random) -> None:
    """Gain bytes at the end."""
    with path.open("ab") as stream:
        stream.write(chance.choice((b"\0", b"\n", b"}", chance.randbytes(64))))


def replaced_by_a_folder(path: Path, chance: random.Random) -> None:
    """Become a folder."""
    path.unlink()
    path.mkdir()


def replaced_by_a_pipe(path: Path, chance: random.Random) -> None:
    """Become a named pipe that nobody writes to."""
    path.unlink()
    os.mkfifo(path)


DAMAGES: list[Callable[[Path, random.Random], None]] = [
    *(flipped, truncated, emptied, deleted, zeroed, extended, replaced_by_a_folder, replaced_by_a_pipe)
]
