"""Run several fine-tunings at a time: in worker processes here, or on the nodes of a cluster."""

import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Self, TypeVar

from electra.config.finetune import FinetuneConfig
from electra.data.cluster import connected
from electra.data.subprocesses import available_cores
from electra.errors import ElectraError, TaskError
from electra.recipes.finetune import finetune
from electra.recipes.parts import Part, has_diverged, in_parts, parts_left
from electra.recipes.results import Results, describe
from electra.recipes.worker import Request, Worker
from electra.training.run import Listener, Record, tell

Finished = TypeVar("Finished")

SMOOTH = 8 / 3  # passes of an update with smoothness, in those of one without


@dataclass(frozen=True)
class Planned:
    """A task to fine-tune on."""

    config: FinetuneConfig  # complete
    train: int  # examples
    dev: int

    @property
    def cost(self) -> float:
        """What a seed computes, relative to others, if every input were as long as allowed."""
        config = self.config
        tokens = self.train * (2 if config.double_unordered else 1) * (config.epochs or 0.0) * (config.max_length or 0)
        return tokens * (SMOOTH if config.smoothness else 1)


def finetune_together(
    tasks: Mapping[str, Planned], finish: Callable[[Results], Finished], together: int, listeners: Sequence[Listener]
) -> list[Finished]:
    """Fine-tune on each task; `together` seeds train at the same time, those of long tasks first.

    Return what `finish` makes of the results, here and while other tasks train. A training that fails is reported at
    once and does not stop the others; the first failure is raised at the end.
    """
    finished: dict[str, Future[Finished]] = {}
    failures: dict[str, BaseException] = {}
    waiting: dict[Future[Results], str] = {}
    parts = sum(max(1, len(parts_left(task.config))) for task in tasks.values())
    with ExitStack() as kept, _Pool(parts, together, listeners) as pool, _in_background() as finishing:
        stages = {name: _stages(task.config, pool) for name, task in tasks.items()}

        def advance(name: str) -> None:
            try:
                waiting.update(dict.fromkeys(next(stages[name], ()), name))
            except (ElectraError, OSError) as problem:
                fail(name, TaskError(f"{name}: {problem}"))

        def fail(name: str, problem: BaseException) -> None:
            failures.setdefault(name, problem)
            pool.report({"warning": str(problem)})

        for name in sorted(tasks, key=lambda name: -tasks[name].cost):
            kept.enter_context(closing(stages[name]))
            advance(name)
        while waiting:
            for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                name = waiting.pop(done)
                if problem := done.exception():
                    fail(name, problem)
                elif found := done.result():
                    pool.report({"detected": describe(found)})
                    finished[name] = finishing.submit(finish, found)
                if name not in failures and name not in waiting.values():
                    advance(name)
        for problem in failures.values():
            raise problem
        return [finished[name].result() for name in tasks]


def _stages(config: FinetuneConfig, pool: "_Pool") -> Generator[list[Future[Results]]]:
    """Start the parts under the run's lock and yield what to wait for, then what is left to do."""
    with in_parts(config) as parts:
        if len(parts) > 1:
            yield [pool.start(config, part) for part in parts]
    yield [pool.start(config)]


@contextmanager
def _in_background() -> Iterator[ThreadPoolExecutor]:
    """Do one thing at a time in a thread; what is still queued at the end is dropped."""
    thread = ThreadPoolExecutor(1)
    try:
        yield thread
    finally:
        thread.shutdown(wait=False, cancel_futures=True)


def finetune_parts(config: FinetuneConfig, together: int, listeners: Sequence[Listener]) -> None:
    """Do the parts of one fine-tuning, `together` at a time, unless there is only one.

    What fails is reported at once and does not stop the others; the first failure is raised at the end.
    """
    failures = []
    with in_parts(config) as parts, _Pool(len(parts), together, listeners) as pool:
        if len(parts) < 2:
            return
        started = {pool.start(config, part): part for part in parts}
        for done in as_completed(started):
            if problem := done.exception():
                failures.append(problem)
                pool.report({"warning": str(problem)})
            else:
                part = started[done]
                outcome = "diverged" if has_diverged(config, part) else "is done"
                pool.report({"detected": f"{part.describe(config)} {outcome}"})
    for problem in failures:
        raise problem


class _Pool:
    """Workers, at most a number of them at a time; at the end they are stopped."""

    def __init__(self, count: int, together: int, listeners: Sequence[Listener]) -> None:
        self.listeners, self.lock, self.stopping = listeners, threading.Lock(), threading.Event()
        self.cores = max(1, available_cores() // max(1, min(together, count)))  # for each
        self.threads = ThreadPoolExecutor(together)  # each waits for one worker
        self.workers: list[Worker] = []
        self.idle: list[Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.threads.shutdown(wait=False, cancel_futures=True)
        self.stopping.set()
        for worker in list(self.workers):
            worker.stop()
        self.threads.shutdown()
        for worker in self.workers:
            worker.close()

    def report(self, record: Record) -> None:
        with self.lock:
            tell(self.listeners, record)

    def start(self, config: FinetuneConfig, part: Part | None = None) -> Future[Results]:
        """Queue a fine-tuning, or a part of one, for the next free worker."""
        return self.threads.submit(self._run, config, part)

    def _run(self, config: FinetuneConfig, part: Part | None) -> Results:
        """Wait for a worker, whose warnings are reported at once."""
        name = f"{config.task}, {part.describe(config)}" if part else config.task
        seed = f"seed {part.seed}: " if part else ""  # in the warnings, and in the name already

        def warn(warning: str) -> None:
            self.report({"warning": f"{name}: {warning.removeprefix(seed)}"})

        worker = self._worker()
        try:
            results = worker.ask(Request(config, part), warn)
        except (TaskError, RuntimeError) as problem:
            raise type(problem)(f"{name}: {problem}") from None
        self.idle.append(worker)
        return results

    def _worker(self) -> Worker:
        """Return a worker that has nothing to do, or start one."""
        with suppress(IndexError):
            return self.idle.pop()
        worker = Worker(self.cores)
        self.workers.append(worker)
        if self.stopping.is_set():  # it may have come too late
            worker.stop()
        return worker


def finetune_in_cluster(
    tasks: Mapping[str, Planned], finish: Callable[[Results], Finished], address: str, listeners: Sequence[Listener]
) -> list[Finished]:
    """Fine-tune on each task somewhere in a Ray cluster; files must be in object storage or on a shared disk.

    Return what `finish` makes of the results, here. A failing task does not stop the others; the first failure is
    raised at the end.
    """
    finished, failures = [], []
    configs = {name: task.config for name, task in tasks.items()}
    with connected(address) as cluster:
        for _, outcome in cluster.in_order(partial(_outcome, configs=configs), tasks):
            if isinstance(outcome, TaskError):
                failures.append(outcome)
                tell(listeners, {"warning": str(outcome)})
            else:
                tell(listeners, {"detected": describe(outcome)})
                finished.append(finish(outcome))
    if failures:
        raise failures[0]
    return finished


def _outcome(name: str, configs: Mapping[str, FinetuneConfig]) -> Results | TaskError:
    """Fine-tune on a task, and return the results or what failed."""
    try:
        return finetune(configs[name])
    except (ElectraError, OSError) as problem:
        return TaskError(f"{name}: {problem}")
