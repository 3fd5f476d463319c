"""Worker processes that tokenize blocks of text; results are returned in order.

Each worker is `python -m electra.data.corpus.workers` and communicates through pipes. Unlike `multiprocessing`, this
needs no `if __name__ == "__main__"` in the user's script, and a worker exits when its parent is killed (end of input).
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import chain, islice
from pathlib import Path
from queue import SimpleQueue

from electra.data.cluster import ahead
from electra.data.corpus.encode import TokenBlock
from electra.data.corpus.group import Block, Fates, Shards, Writer
from electra.data.reading.parts import Part, read_parts
from electra.data.reading.sources import Source
from electra.data.reading.text import Passage
from electra.data.settings import Reading
from electra.data.subprocesses import available_cores, start_module
from electra.errors import DataError, ElectraError

Step = Callable[[Sequence[Passage]], TokenBlock]


class Workers:
    """Does the work of a build on this machine: tokenizes in worker processes, and reads and writes in this one."""

    ahead = 0  # groups that are being written

    def __init__(self, count: int | None) -> None:
        self.count = count  # None: one per core, but none for a text of one block, which takes less time than a start

    def read(self, sources: Sequence[Source], reading: Reading, limit: int) -> Iterator[Part]:
        """Yield the parts of a text."""
        return read_parts(sources, reading, limit)

    def tokenize(
        self, blocks: Iterable[Block], step: Step
    ) -> Generator[tuple[Block, TokenBlock, TokenBlock], None, None]:
        """Yield each block with its tokens, in order: for deciding on them, and for `write`."""
        blocks, count = iter(blocks), self.count
        if count is None:
            first = list(islice(blocks, 2))
            blocks, count = chain(first, blocks), available_cores() if len(first) > 1 else 0
        with closing(tokenize_in_order(blocks, step, count)) as tokenized:
            for block, tokens in tokenized:
                yield block, tokens, tokens

    def write(
        self, writer: Writer, group: int, blocks: Iterable[tuple[TokenBlock, Fates]], folder: Path
    ) -> Callable[[], Shards]:
        """Write the shards of a group, and return a function that returns them."""
        shards = writer.write(group, blocks, folder)
        return lambda: shards


def tokenize_in_order(
    blocks: Iterable[Block], step: Step, workers: int
) -> Generator[tuple[Block, TokenBlock], None, None]:
    """Call `step` in worker processes (0: here), and yield each block with its tokens, in order."""
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

        most = 2 * workers  # keeps all of them busy
        for block, answer in ahead(blocks, lambda block: threads.submit(ask, block), most):
            yield block, answer.result()


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
            answer: TokenBlock | ElectraError = pickle.load(self.process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            if self.process.wait() > 0:
                raise RuntimeError("a worker process failed (its traceback is above)") from None
            raise DataError(
                f"a worker process was killed (signal {-self.process.returncode}); out of memory? try fewer --workers"
            ) from None
        if isinstance(answer, ElectraError):
            raise answer
        return answer


def _answer(step: Step, passages: Sequence[Passage]) -> TokenBlock | ElectraError:
    try:
        return step(passages)
    except ElectraError as problem:
        return problem


def _work() -> None:
    try:
        step: Step = pickle.load(sys.stdin.buffer)
        while True:
            pickle.dump(_answer(step, pickle.load(sys.stdin.buffer)), sys.stdout.buffer, protocol=5)
            sys.stdout.buffer.flush()
    except (EOFError, BrokenPipeError, pickle.UnpicklingError):
        os._exit(0)  # the parent was killed, so skip flushing to it
    except MemoryError:
        os.abort()  # as libraries do: the parent says what to do


if __name__ == "__main__":
    _work()
