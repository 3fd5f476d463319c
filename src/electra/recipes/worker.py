"""A process that fine-tunes for another one, one part after the other: its start takes longer than some parts."""

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from queue import SimpleQueue

import torch

from electra.config.finetune import FinetuneConfig
from electra.data.corpus.workers import available_cores, start_module
from electra.errors import ElectraError, TaskError
from electra.recipes.finetune import Part, finetune, finetune_part
from electra.recipes.results import Results
from electra.training.run import Record


class Worker:
    """Such a process, as seen from the other one. It ends with the first failure."""

    def __init__(self, threads: int) -> None:
        with ExitStack() as opened:
            self.errors = opened.enter_context(tempfile.TemporaryFile())
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors.fileno()}
            # All may tokenize on every core, which is soon done; threads of torch would wait for each other.
            started = start_module(__name__, threads=threads, tokenizing=available_cores(), **pipes)
            self.process = opened.enter_context(started)
            self.close = opened.pop_all().close  # waits for the end of the process

    def ask(self, config: FinetuneConfig, part: Part | None, warn: Callable[[str], None]) -> Results:
        """Let it do a part of a fine-tuning, or else what is left to do, and return the results of the latter."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # it has failed already
            os.write(self.process.stdin.fileno(), pickle.dumps((config, part)))
        for line in self.process.stdout:
            if not line.startswith(b"{"):  # a library's output, not our JSON
                continue
            record = json.loads(line)
            if "warning" not in record:
                results: Results = record
                return results
            warn(record["warning"])
        raise TaskError(self._problem())

    def _problem(self) -> str:
        """Wait for the end of the process and return why it failed."""
        code = self.process.wait()
        self.errors.seek(0)
        message = self.errors.read().decode(errors="replace").strip()
        if code < 0:  # what it wrote before says nothing about that
            return f"the process was killed by signal {-code}; perhaps memory ran out"
        return message.splitlines()[-1] if message else "the process was killed"

    def stop(self) -> None:
        """End the process, which saves a checkpoint if it is training."""
        self.process.terminate()


def _listen(asked: "SimpleQueue[tuple[FinetuneConfig, Part | None]]") -> None:
    """Pass on what is asked; when the other process has exited, stop with SIGTERM, which saves a checkpoint."""
    with open(0, "rb", closefd=False) as stream, suppress(EOFError, pickle.UnpicklingError):
        while True:
            asked.put(pickle.load(stream))  # of our own process
    signal.raise_signal(signal.SIGTERM)  # os.kill would end the process at once on Windows


def _work() -> None:
    asked: SimpleQueue[tuple[FinetuneConfig, Part | None]] = SimpleQueue()
    threading.Thread(target=_listen, args=(asked,), daemon=True).start()
    while True:
        config, part = asked.get()
        results: Results = {}
        try:
            if part:
                finetune_part(config, part, [_warn])
            else:
                results = finetune(config, [_warn])
        except ElectraError as error:
            sys.exit(str(error))
        gc.collect()
        torch.cuda.empty_cache()  # leaves the memory to the others
        print(json.dumps(results), flush=True)


def _warn(record: Record) -> None:
    if "warning" in record:
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    _work()
