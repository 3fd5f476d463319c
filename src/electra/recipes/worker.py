"""A worker process that fine-tunes: one part after another, since its start takes longer than some parts."""

import gc
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any, NamedTuple

import torch

from electra.config.finetune import FinetuneConfig
from electra.data.subprocesses import available_cores, start_module
from electra.errors import ForeignText, TaskError, in_one_line, is_known
from electra.recipes.finetune import finetune_part
from electra.recipes.parts import Part
from electra.recipes.results import Results
from electra.recipes.tuning import Tuning, prepare
from electra.training.run import Record


class Request(NamedTuple):
    """What a worker is asked to do."""

    config: FinetuneConfig
    part: Part | None  # None: whatever is left to do


class Worker:
    """A worker process, as seen from the one that started it. It ends when something fails."""

    def __init__(self, threads: int) -> None:
        with ExitStack() as opened:
            self.errors = opened.enter_context(tempfile.TemporaryFile())
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.errors.fileno()}
            # Tokenizing is soon done, so every worker may use all cores for it; torch's threads would wait for others.
            started = start_module(__name__, threads=threads, tokenizing=available_cores(), **pipes)
            self.process = opened.enter_context(started)
            self.close = opened.pop_all().close  # waits for the end of the process

    def ask(self, request: Request, warn: Callable[[str], None]) -> Results:
        """Let it work, pass on its warnings, and return the results of the fine-tuning; empty for a part."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(OSError):  # it has failed already
            os.write(self.process.stdin.fileno(), pickle.dumps(request))
        for line in self.process.stdout:
            answer = json.loads(line)
            if "failed" in answer:
                raise TaskError(answer["failed"])
            if "results" in answer:
                results: Results = answer["results"]
                return results
            warn(answer["warning"])
        raise self._death()

    def _death(self) -> Exception:
        """Return why the process ended without an answer."""
        code = self.process.wait()
        if code < 0:
            hint = "; perhaps memory ran out" if code == -signal.SIGKILL else ""
            return TaskError(f"the process was killed by signal {-code}{hint}")
        self.errors.seek(0)
        sys.stderr.write(self.errors.read().decode(errors="replace"))
        return RuntimeError("a worker process failed (its traceback is above)")

    def stop(self) -> None:
        """End the process, which first saves a checkpoint if `checkpoint_every` is set."""
        self.process.terminate()


def _listen(requests: "SimpleQueue[Request]") -> None:
    """Pass on the requests; when the other process has exited, stop with SIGTERM, as `Worker.stop` does."""
    with open(0, "rb", closefd=False) as stream, suppress(EOFError, pickle.UnpicklingError):
        while True:
            requests.put(pickle.load(stream))  # of our own process
    signal.raise_signal(signal.SIGTERM)  # os.kill would end the process at once on Windows


def _work() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print

    def answer(record: Record) -> None:
        print(json.dumps(record), file=answers, flush=True)

    def listen(record: Record) -> None:
        if "warning" in record:
            answer({"warning": record["warning"]})

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, ForeignText):
            answer({"warning": str(message)})

    warnings.showwarning = show
    requests: SimpleQueue[Request] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests,), daemon=True).start()
    last: list[tuple[FinetuneConfig, Tuning]] = []

    def prepare_once(config: FinetuneConfig) -> Tuning:
        """Prepare a fine-tuning, unless the last part was of the same one."""
        if not last or last[0][0] != config:
            last[:] = [(config, prepare(config))]
        return last[0][1]

    while True:
        config, part = requests.get()
        try:
            results = finetune_part(config, part, [listen], prepare_once)
        except Exception as error:
            if not is_known(error):
                raise
            answer({"failed": in_one_line(error)})
            sys.exit(1)
        gc.collect()
        torch.cuda.empty_cache()  # leaves the memory to the others
        answer({"results": results})


if __name__ == "__main__":
    _work()
