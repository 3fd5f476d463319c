"""Run several fine-tunings at a time, each in a process of its own: here, or on the nodes of a cluster."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial

from electra.config.load import load_finetune_config
from electra.data.cluster import connected
from electra.data.corpus.workers import available_cores, start_module
from electra.errors import ElectraError, TaskError
from electra.recipes.finetune import finetune
from electra.recipes.results import Results, describe
from electra.training.run import Listener, Record, tell


def finetune_together(
    preset: str, tasks: Mapping[str, Sequence[str]], together: int, listeners: Sequence[Listener]
) -> list[Results]:
    """Fine-tune on each task with its keys on top of a preset, `together` at a time.

    A failing task is reported at once and does not stop the others; the first failure is raised at the end.
    """
    lock, stopping = threading.Lock(), threading.Event()
    cores = max(1, available_cores() // min(together, len(tasks)))  # for each
    running: set[subprocess.Popen[bytes]] = set()

    def report(record: Record) -> None:
        with lock:
            tell(listeners, record)

    failures = []
    with ThreadPoolExecutor(together) as threads:  # each waits for one process
        try:
            started = [
                threads.submit(_finetune_apart, name, [preset, *keys], cores, running, stopping, report)
                for name, keys in tasks.items()
            ]
            for done in as_completed(started):
                if problem := done.exception():
                    failures.append(problem)
                    report({"warning": str(problem)})
                else:
                    report({"detected": describe(done.result())})
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
            stopping.set()
            for process in list(running):
                process.terminate()  # makes it save a checkpoint; does nothing if it has already exited
    if failures:
        raise failures[0]
    return [done.result() for done in started]


def _finetune_apart(
    name: str,
    arguments: Sequence[str],
    cores: int,
    running: set[subprocess.Popen[bytes]],
    stopping: threading.Event,
    report: Listener,
) -> Results:
    """Fine-tune on a task in a process of its own, which joins those that are running; report its warnings at once."""
    last: Results = {}
    with tempfile.TemporaryFile() as errors:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors.fileno()}
        process = start_module(__name__, *arguments, threads=cores, **pipes)
        with process:  # its stdin stays open as long as this process lives
            running.add(process)
            if stopping.is_set():  # it may have joined too late
                process.terminate()
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith(b"{"):  # our JSON, not a library's output
                    last = json.loads(line)
                    if "warning" in last:
                        report({"warning": f"{name}: {last['warning']}"})
        errors.seek(0)
        message = errors.read().decode(errors="replace").strip()
    if process.returncode:
        raise TaskError(f"{name}: {message.splitlines()[-1] if message else 'the process was killed'}")
    return last


def finetune_in_cluster(
    preset: str, tasks: Mapping[str, Sequence[str]], address: str, listeners: Sequence[Listener]
) -> list[Results]:
    """Fine-tune on each task somewhere in a Ray cluster; files must be in object storage or on a shared disk.

    A failing task does not stop the others; the first failure is raised at the end.
    """
    results, failures = [], []
    with connected(address) as cluster:
        for name, outcome in cluster.in_order(partial(_outcome, preset=preset, tasks=tasks), tasks):
            if isinstance(outcome, ElectraError):
                failures.append(outcome)
                tell(listeners, {"warning": f"{name}: {outcome}"})
            else:
                results.append(outcome)
                tell(listeners, {"detected": describe(outcome)})
    if failures:
        raise failures[0]
    return results


def _outcome(name: str, preset: str, tasks: Mapping[str, Sequence[str]]) -> Results | ElectraError:
    """Fine-tune on a task; an error of the user is returned, so that the other tasks go on."""
    try:
        return finetune(load_finetune_config(preset, tasks[name]))
    except ElectraError as problem:
        return problem


def _stop_with_parent() -> None:
    """Wait until stdin closes because the parent exited, then stop with SIGTERM, which saves a checkpoint."""
    while os.read(0, 1):
        pass
    signal.raise_signal(signal.SIGTERM)  # os.kill would end the process at once on Windows


def _work(preset: str, *keys: str) -> None:
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        print(json.dumps(finetune(load_finetune_config(preset, keys), [_warn])))
    except ElectraError as error:
        sys.exit(str(error))


def _warn(record: Record) -> None:
    if "warning" in record:
        print(json.dumps(record), flush=True)


if __name__ == "__main__":
    _work(*sys.argv[1:])
