"""Several fine-tunings at a time, each in a process of its own: small tasks wait for the host, not for the GPU."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import ExitStack

from electra.config.load import load_finetune_config
from electra.data.corpus.workers import start_module
from electra.errors import ElectraError, TaskError
from electra.recipes.finetune import finetune
from electra.recipes.results import Results, describe
from electra.training.run import Listener


def finetune_together(
    preset: str, tasks: Mapping[str, Sequence[str]], together: int, listeners: Sequence[Listener] = ()
) -> list[Results]:
    """Fine-tune for each task with its keys on top of a preset, some at a time; the first that fails is the error."""

    def work(name: str) -> Results:
        pipes = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
        with start_module(__name__, preset, *tasks[name], **pipes) as process:  # its input is open as long as we live
            assert process.stdout is not None
            assert process.stderr is not None
            failed, said = process.stderr.read().decode(), process.stdout.read().decode()
        if process.returncode:
            raise TaskError(
                f"{name}: {failed.strip().splitlines()[-1] if failed.strip() else 'the process was killed'}"
            )
        results: Results = json.loads(said.splitlines()[-1])
        return results

    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(together))  # each waits for one process
        stack.callback(threads.shutdown, cancel_futures=True)
        started = [threads.submit(work, name) for name in tasks]
        for done in as_completed(started):
            said = describe(done.result())
            for listener in listeners:
                listener({"detected": said})
        return [done.result() for done in started]


def _stop_with_parent() -> None:
    """Stop as by SIGTERM, which saves what there is, when the parent is gone: the input ends then."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _work(preset: str, *keys: str) -> None:
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        print(json.dumps(finetune(load_finetune_config(preset, keys))))
    except ElectraError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _work(*sys.argv[1:])
