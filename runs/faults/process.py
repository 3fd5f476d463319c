"""Run a command in a fork of this process, which has already imported everything."""

import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.listdir", "os.scandir", "os.truncate")
LIMIT = 30.0  # seconds, after which a command hangs
ADDRESSES = 4 << 30  # bytes that a command may allocate beyond what it starts with
TIMED_OUT = 124
SIGNALS = (signal.SIGINT, signal.SIGTERM)

Before = Callable[[], None]  # called in the fork, before the command


@dataclass(frozen=True)
class Outcome:
    """How a command ended: its exit code (negative: the signal that killed it) and its output."""

    status: int
    stdout: str
    stderr: str
    seconds: float


def nothing() -> None:
    """Disturb nothing."""


def start(
    argv: Sequence[str], folder: Path, before: Before = nothing, ended: Callable[[Outcome], None] = lambda outcome: None
) -> "Running":
    """Start `electra ARGV...` in a folder; `ended` receives the outcome."""
    pipes = [os.pipe() for _ in range(3)]  # output, errors, and one that closes when main handles signals
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _become(argv, folder, before, [end for _, end in pipes])
    for _, end in pipes:
        os.close(end)
    *output, ready = (end for end, _ in pipes)
    os.read(ready, 1)
    os.close(ready)
    return Running(pid, output, ended)


def run(argv: Sequence[str], folder: Path, before: Before = nothing) -> Outcome:
    """Run `electra ARGV...` in a folder."""
    return start(argv, folder, before).wait()


class Running:
    """A command that was started."""

    def __init__(self, pid: int, pipes: list[int], ended: Callable[[Outcome], None]) -> None:
        self.pid, self.pipes, self.ended, self.began = pid, pipes, ended, time.monotonic()
        self.descriptor = os.pidfd_open(pid)
        self.output = dict.fromkeys(pipes, b"")

    def ended_within(self, seconds: float) -> bool:
        """Return whether the command ended, after waiting at most this long."""
        return bool(select.select([self.descriptor], [], [], seconds)[0])

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the command, unless it has ended."""
        signal.pidfd_send_signal(self.descriptor, number)

    def wait(self) -> Outcome:
        """Wait for the command; end it, and all that it started, after the time limit."""
        hangs = not self._listen()
        if hangs:
            self.send(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        seconds = time.monotonic() - self.began
        with suppress(ProcessLookupError):  # processes that it started and left behind
            os.killpg(self.pid, signal.SIGKILL)
        for pipe in self.pipes:
            self._read(pipe)
        for end in (self.descriptor, *self.pipes):
            os.close(end)
        stdout, stderr = (content.decode(errors="replace") for content in self.output.values())
        outcome = Outcome(TIMED_OUT if hangs else os.waitstatus_to_exitcode(status), stdout, stderr, seconds)
        self.ended(outcome)
        return outcome

    def _listen(self) -> bool:
        """Read what the command prints; return whether it ended in time."""
        last, pipes = time.monotonic() + LIMIT, self.pipes
        while (left := last - time.monotonic()) > 0:
            ready = select.select([self.descriptor, *pipes], [], [], left)[0]
            if self.descriptor in ready:
                return True
            pipes = [pipe for pipe in pipes if pipe not in ready or self._read(pipe)]
        return False

    def _read(self, pipe: int) -> bool:
        """Read what is in a pipe; return whether more may follow."""
        os.set_blocking(pipe, False)
        with suppress(BlockingIOError):
            while found := os.read(pipe, 1 << 16):
                self.output[pipe] += found
            return False
        return True


def _become(argv: Sequence[str], folder: Path, before: Before, ends: Sequence[int]) -> None:
    """Turn this fork into the command line; never returns."""
    status = 1
    try:
        os.setsid()
        os.chdir(folder)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        *output, ready = ends
        for number, end in enumerate(output, start=1):
            os.dup2(end, number)
        sys.stdin, sys.stdout, sys.stderr = (open(n, mode, closefd=False) for n, mode in enumerate("rww"))  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["electra", *argv]
        limit(resource.RLIMIT_AS, allocated() + ADDRESSES)
        import faults.page  # noqa: F401, adds a command
        from electra import cli

        stop = vars(cli)["Stop"]

        def ready_to_stop() -> Any:
            found = stop()
            os.close(ready)
            return found

        vars(cli)["Stop"] = ready_to_stop
        before()
        try:
            cli.main()
        finally:
            signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 0
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def limit(what: int, most: int) -> None:
    """Set a resource limit of this process."""
    resource.setrlimit(what, (most, most))


def allocated() -> int:
    """Return the size of this process's address space in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def at_operation(number: int, act: Before, kinds: Sequence[str] = OPERATIONS) -> Before:
    """Call `act` when the command is about to do its `number`-th operation on its files, or the next of some kinds."""
    left = [act]

    def see(count: int, kind: str) -> None:
        if left and count >= number and kind in kinds:
            left.pop()()

    return lambda: _watch(see)


def counting(place: memoryview) -> Before:
    """Count the command's operations on its files in shared memory."""

    def note(count: int, kind: str) -> None:
        place[0] = count

    return lambda: _watch(note)


def _watch(seen: Callable[[int, str], None]) -> None:
    here, count = os.getcwd(), 0  # noqa: PTH109

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in OPERATIONS and isinstance(arguments[0], str) and os.path.abspath(arguments[0]).startswith(here):  # noqa: PTH100
            count += 1
            seen(count, event)

    sys.addaudithook(hook)
