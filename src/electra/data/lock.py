"""A place for one process alone: a corpus under way, a run that trains."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from electra.errors import ElectraError


@contextmanager
def alone(path: Path, refusal: ElectraError) -> Iterator[None]:
    """Hold a lock file, or refuse where another process does; the system frees it when the process dies."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise refusal from None
        yield
