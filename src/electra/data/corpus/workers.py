"""Worker processes that tokenize blocks of text; results are returned in order.

Each worker is `python -m electra.data.corpus.workers` and communicates through pipes. Unlike `multiprocessing`, this
needs no `if __name__ == "__main__"` in the user's script, and a worker exits when its parent is killed (end of input).
"""

import os
import pickle
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

import electra
from electra.data.cluster import Cluster
from electra.data.corpus.encode import TokenBlock
from electra.data.reading.text import Passage
from electra.errors import DataError

Step = Callable[[Sequence[Passage]], TokenBlock]


class Block(NamedTuple):
    """The text that a worker takes at a time; a group of blocks becomes one shard of each split."""

    passages: Sequence[Passage]
    group: int
    fingerprint: str  # of all text up to the end of this block
    bytes_read: int  # up to the end of this block, as stored


def available_cores() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tokenize_in_order(
    blocks: Iterable[Block], step: Step, workers: int, cluster: Cluster | None = None
) -> Generator[tuple[Block, TokenBlock], None, None]:
    """Call `step` in worker processes (0: here) or in a cluster, and yield each block with its tokens, in order."""
    if cluster:
        yield from cluster.in_order(partial(_tokens, step=step), blocks)
        return
    if workers == 0:
        yield from ((block, step(block.passages)) for block in blocks)
        return
    with ExitStack() as stack:
        idle: SimpleQueue[_Worker] = SimpleQueue()
        for _ in range(workers):
            idle.put(worker := _Worker(step))
            stack.callback(worker.stop)
        threads = stack.enter_context(ThreadPoolExecutor(workers))  # each thread waits for one worker
        stack.callback(threads.shutdown, cancel_futures=True)

        def ask(block: Block) -> TokenBlock:
            worker = idle.get()
            try:
                return worker.ask(block.passages)
            finally:
                idle.put(worker)

        pending: deque[tuple[Block, Future[TokenBlock]]] = deque()
        for block in blocks:
            pending.append((block, threads.submit(ask, block)))
            if len(pending) > 2 * workers:  # keeps all workers busy and bounds the memory
                first, answer = pending.popleft()
                yield first, answer.result()
        yield from ((block, answer.result()) for block, answer in pending)


def _tokens(block: Block, step: Step) -> TokenBlock:
    return step(block.passages)


def start_module(name: str, *arguments: str, threads: int = 1, **settings: int) -> subprocess.Popen[bytes]:
    """Start an electra module in a new process; `threads` is its OMP_NUM_THREADS unless the environment sets it."""
    home = str(Path(electra.__file__).parents[1])
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    process: subprocess.Popen[bytes] = subprocess.Popen(
        [sys.executable, "-P", "-m", name, *arguments],  # -P: no imports from the working directory
        env={"OMP_NUM_THREADS": str(threads), **os.environ, "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"},
        **settings,  # type: ignore[call-overload]
    )
    return process


class _Worker:
    """A worker process, as seen from its parent."""

    def __init__(self, step: Step) -> None:
        self.unsent: list[object] = [step]  # sent with the first block, when the process is running
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        # A separate process group, so that Ctrl-C reaches only the parent; Windows uses the second option.
        group = {"process_group": 0, "creationflags": getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)}
        self.process = start_module(__name__, **pipes, **group)

    def stop(self) -> None:
        self.process.kill()  # it has no results that are still needed
        self.process.communicate()

    def ask(self, passages: Sequence[Passage]) -> TokenBlock:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.unsent.append(passages)
        try:
            while self.unsent:
                pickle.dump(self.unsent.pop(0), self.process.stdin, protocol=5)
            self.process.stdin.flush()
            tokens: TokenBlock = pickle.load(self.process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            if self.process.wait() > 0:
                raise RuntimeError("a worker process failed (its traceback is above)") from None
            raise DataError(
                f"a worker process was killed (signal {-self.process.returncode}); out of memory? try fewer --workers"
            ) from None
        return tokens


def _work() -> None:
    try:
        step: Step = pickle.load(sys.stdin.buffer)
        while True:
            pickle.dump(step(pickle.load(sys.stdin.buffer)), sys.stdout.buffer, protocol=5)
            sys.stdout.buffer.flush()
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        os._exit(0)  # the parent was killed, so skip flushing to it
    except MemoryError:
        os.abort()  # as libraries do: the parent says what to do


if __name__ == "__main__":
    _work()
