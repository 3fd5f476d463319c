"""Commands on a file system without room: a small one, mounted over the folder of a case, which takes root."""

import os
import subprocess
from pathlib import Path

from faults.case import Case
from faults.commands import Command
from faults.faults import Fault, fault
from faults.verdicts import Judged

SIZE = 32 << 20  # bytes of the file system
PAGE = 4096  # bytes that a small file takes
FAULTS: list[Fault] = []


def _writes(command: Command) -> bool:
    return bool(command.writes)


@fault("full disk", _writes, into=FAULTS)
def disk_full(case: Case) -> Judged:
    """Let the disk be full at some time; it has room for the repetition."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", case.folder], check=True)
    try:
        case.restore()
        files = case.reference.published.values()
        room = int(case.chance.random() * 3 * sum(len(content) + PAGE for content in files))
        case.note(f"room for {room} bytes")
        filler = _fill(case.folder, room)
        outcome = case.run()
        filler.unlink()
        return case.judge(outcome)
    finally:
        subprocess.run(["umount", "--lazy", case.folder], check=True)


def _fill(folder: Path, room: int) -> Path:
    """Write a file that leaves only some bytes."""
    disk, path = os.statvfs(folder), folder / ".filler"
    path.write_bytes(bytes(max(0, disk.f_bavail * disk.f_frsize - room)))
    return path
