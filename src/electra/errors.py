"""Errors caused by the user's input; each message is one line: where, what was found, what to do next."""

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a full disk, an exceeded quota, a file too large
NO_ACCESS = (errno.EACCES, errno.EPERM, errno.EROFS)  # permission denied, a file system that is read-only
NO_MEMORY = re.compile(
    "out of memory|not enough memory|allocate memory|failed to map segment|start new thread", re.IGNORECASE
)  # of CPUs and GPUs
NO_HANDLES = re.compile("too many open files", re.IGNORECASE)  # also when a library is loaded

EXTRAS = {"datasets": "text", "pyarrow": "text", "s3fs": "cloud", "gcsfs": "cloud"}  # of optional packages


class ElectraError(Exception):
    """The user's input is invalid; the message is one line to show."""


class ConfigError(ElectraError):
    """A config key, value or combination is invalid."""


class DataError(ElectraError):
    """A text, vocabulary or corpus cannot be used."""


class StorageError(ElectraError):
    """An address in object storage cannot be read or written."""


class ClusterError(ElectraError):
    """A cluster cannot be used, or lost too much of the work."""


class CheckpointError(ElectraError):
    """A model folder or weight file cannot be used."""


class TaskError(ElectraError):
    """A fine-tuning task or its data cannot be used."""


class Diverged(ElectraError):
    """A training has to be given up, since its loss or outputs are not finite any more."""


class ForeignText(UserWarning):
    """A text is not in a language of the model."""


class Stopped(ElectraError):
    """A signal stopped the command, which can be run again."""

    def __init__(self, message: str, signal: int) -> None:
        super().__init__(message)
        self.signal = signal


def out_of_memory(problem: BaseException) -> bool:
    """Return whether an error of Python, numpy, torch or the system is about memory."""
    return isinstance(problem, MemoryError) or NO_MEMORY.search(str(problem)) is not None


def remedy(problem: BaseException) -> str | None:
    """Return what to do if the machine lacks memory, room or file handles, or denies access; None for other errors."""
    if out_of_memory(problem):
        return "use smaller batches, shorter sequences, a smaller model or fewer --workers, or free some memory"
    if getattr(problem, "errno", None) in NO_ROOM:
        return "make room and run the same command again"
    if getattr(problem, "errno", None) in NO_ACCESS:
        return "check the permissions of the file and its folder, or choose another place"
    return "raise the limit with: ulimit -n 4096" if NO_HANDLES.search(str(problem)) else None


def reason(problem: BaseException) -> str:
    """Return an error of the system or of a library in one line, with its remedy if there is one."""
    said = getattr(problem, "strerror", None) or str(problem) or type(problem).__name__
    parts = ["not enough memory" if out_of_memory(problem) else said, remedy(problem)]
    return " ".join("; ".join(filter(None, parts)).split())


def is_known(problem: BaseException) -> bool:
    """Return whether an error is about the user's input or the machine, not a bug."""
    return isinstance(problem, ElectraError | OSError) or remedy(problem) is not None


def in_one_line(problem: BaseException) -> str:
    """Return an error in one line: ours as it is, others with their file and a remedy."""
    if isinstance(problem, ElectraError):
        return str(problem)
    file = getattr(problem, "filename", None)
    return f"{file}: {reason(problem)}" if file else reason(problem)


@contextmanager
def explained(name: str, begins: str, error: type[ElectraError]) -> Iterator[None]:
    """Turn any error of a library into a one-line error about what has this name."""
    try:
        yield
    except ElectraError:
        raise
    except ImportError as problem:
        extra = next((EXTRAS[package] for package in EXTRAS if package in f"{problem.name} {problem}"), None)
        hint = f"; run: pip install '.[{extra}]' in the checkout" if extra else ""
        raise error(f"{name} needs a package that is not installed: {problem}{hint}") from None
    except Exception as problem:  # every format and file system has its own errors
        raise error(f"{begins}: {reason(problem)}") from None
