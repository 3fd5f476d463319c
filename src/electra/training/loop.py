"""The loop. Nothing in this file knows an objective or a task: it is handed a module that gives a loss."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, Generic

from torch import nn

from electra.config.schema import TrainConfig
from electra.errors import CheckpointError, ElectraError
from electra.training.checkpoint import Checkpoints
from electra.training.optim import Factor
from electra.training.processes import Processes
from electra.training.run import Record, Run
from electra.training.schedule import learning_rate, total_steps
from electra.training.update import Inputs, Network, Result, Update, Weigh

MOST_BAD_STEPS = 20  # updates in a row without a finite gradient before a run gives up


@dataclass
class State:
    """Where a run stands; all of it is in every checkpoint."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0  # updates left out because the gradient was not finite
    best: float | None = None
    evaluated: int = 0  # the step of the latest evaluation
    latest_update: float = 0.0  # seconds: hours that are spent leave no room for another like it, ever
    ending: float = 0.0  # seconds that the end of the run will take: an evaluation, a checkpoint, the model


@dataclass
class Job(Generic[Result]):
    """What to train, on what, and whom to tell."""

    module: nn.Module  # from a micro-batch to a result that has a loss
    updates: Callable[[int], Iterator[tuple[int, Iterable[Inputs]]]]  # from a step on: tokens and micro-batches of each
    evaluate: Callable[[Network], dict[str, float]]  # its `loss`, where there is one, ranks the checkpoints
    evaluate_every: int
    checkpoint_every: int
    log_every: int
    begin: Callable[[], None]  # called before the first update, unless there is none left to make
    remedy: str  # what to do where the loss stays without a finite value
    more_time: str = ""  # what to do where the hours are over before the first update
    metrics: Callable[[Result], dict[str, float]] = lambda result: {}  # beside its loss
    finish: Callable[[], None] = lambda: None  # writes the result, also when the run is interrupted after an update
    warnings: Sequence[str] = ()  # what is to be said before step 1
    flops_per_token: float = 0.0
    peak: float | None = None  # FLOP/s of the hardware, where known
    factor: Factor = lambda name: 1.0  # of the learning rate, by the parameter's name
    weigh: Weigh = lambda *inputs: 1.0  # how much a micro-batch counts among those of its update
    enough: Callable[[], bool] = lambda: False  # says after an evaluation that more would not help


class _Stop:
    """A wish to stop, from SIGTERM or Ctrl-C; the second Ctrl-C does not wait."""

    signal: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals; one that the work had no use for goes to whoever listened before."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread can listen
            yield
            return
        heard = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self) for number in heard}  # a shell's background jobs ignore Ctrl-C
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.signal:
            signal.raise_signal(self.signal)


class _Interrupted(Exception):
    """An evaluation that a wish to stop ended."""


def train(job: Job[Any], config: TrainConfig, run: Run, checkpoints: Checkpoints, processes: Processes) -> State:
    """Train until the budget is spent or it is enough, from the newest checkpoint on; a stop before is an error."""
    trainer = _Trainer(job, config, run, checkpoints, processes)
    with trainer.stop.listening():
        trainer.work()
    return trainer.state


class _Trainer:
    def __init__(
        self, job: Job[Any], config: TrainConfig, run: Run, checkpoints: Checkpoints, processes: Processes
    ) -> None:
        self.job, self.config, self.run = job, config, run
        self.checkpoints, self.processes = checkpoints, processes
        self.stop = _Stop()
        self.update = Update[Any](job.module, config, processes, job.factor, job.weigh)
        self.optimizer = self.update.optimizer
        self.steps = total_steps(config)
        self.state = state = self._restored()
        self.optimizer.skipped.fill_(state.skipped)
        self.check_every = job.log_every if processes.device.type == "cuda" else 1  # looking costs a wait for the GPU
        self.started = time.monotonic() - state.seconds
        self.saved_at = state.step or -1
        self.logged = (time.monotonic(), state.tokens)

    def _restored(self) -> State:
        """Go back to the newest checkpoint that is whole, and say what there is to say before the first update."""
        restored = self.checkpoints.restore(self.job.module, self.optimizer)
        try:
            state = State(**restored.state) if restored else State()
        except TypeError:
            raise CheckpointError(f"{self.run.folder} is of another version of electra; choose another out") from None
        if self.processes.largest(state.step) != -self.processes.largest(-state.step):
            raise CheckpointError(
                f"the processes find different checkpoints in {self.run.folder}: out has to be a shared folder"
            )
        warnings = [f"{path} is damaged: an older one is used" for path in restored.damaged] if restored else []
        if self.processes.first:
            self.run.rewind(state.step or -1)  # a checkpoint of step 0 holds nothing that starting anew does not give
            for warning in (*warnings, *(self.job.warnings if state.step == 0 else ())):
                self.run.report({"step": state.step, "warning": warning})
        return state

    def _begin(self) -> None:
        """Measure and save the untrained network: a full disk shows now, and so does how long the end will take."""
        began = time.monotonic()
        self._evaluate()
        evaluated = time.monotonic()
        self._save()
        saved = time.monotonic()
        self.state.ending = (evaluated - began) + 2 * (saved - evaluated)  # writing the model is like a checkpoint

    def work(self) -> None:
        """Update until the budget is spent or a stop is wanted."""
        job, state = self.job, self.state
        if state.step == 0:
            self._begin()
        updates = job.updates(state.step)
        progress = self._progress()
        if progress >= 1 and state.step == 0:  # an untrained model would pass for a trained one
            raise ElectraError(
                f"the hours are over before the first update: evaluating and saving take {state.ending:,.0f} seconds; "
                f"{job.more_time}"
            )
        if progress < 1 and not job.enough():
            job.begin()
        if state.evaluated < state.step and self._is_evaluated(progress):  # a stop came before it
            self._evaluate()
        while progress < 1 and not job.enough() and not self._is_stopped():
            began = time.monotonic()
            tokens, micro_batches = next(updates)
            rate = learning_rate(self.config, state.step, progress)
            result = self.update(micro_batches, rate)
            state.step += 1
            state.tokens += tokens
            if state.step % self.check_every == 0:
                self._count_skipped()
            state.latest_update = time.monotonic() - began
            progress = self._progress()
            if self._is_logged(state.step) or progress >= 1:
                self._log(result, rate)
            if self._is_evaluated(progress):
                self._evaluate()
                progress = self._progress()  # the clock went on meanwhile
            if state.step % job.checkpoint_every == 0 and not self._astray():
                self._save()
        self._end(progress)

    def _end(self, progress: float) -> None:
        """Write what came of the run, and say what it lacks of a good end."""
        job, state, astray = self.job, self.state, self._astray()
        if not astray:
            self._save()
            if self.processes.first and state.step:
                job.finish()
        self.processes.wait()
        if progress < 1 and not job.enough():  # no success, so that a script does not go on with half a model
            again = "goes on" if self.checkpoints.hold_updates() else "starts it anew"
            raise ElectraError(f"{self.run.folder}: stopped at step {state.step:,}; the same command {again}")
        if astray:
            raise ElectraError(f"the loss was not finite at the end, step {state.step:,}: {job.remedy}")

    def _is_stopped(self) -> bool:
        """Say whether any process is told to stop."""
        return self.processes.largest(float(self.stop.signal is not None)) > 0

    def _is_evaluated(self, progress: float) -> bool:
        """Say whether an evaluation follows on this step."""
        return self.state.step % self.job.evaluate_every == 0 or progress >= 1

    def _is_logged(self, step: int) -> bool:
        """Say whether a step is logged: every so many; before the first of them steps 1, 2, 4, 8, to show life."""
        every = self.job.log_every
        return step % every == 0 or (step < every and step.bit_count() == 1)

    def _progress(self) -> float:
        """Give the share of the budget that is spent."""
        if self.steps is not None:
            return self.state.step / self.steps
        assert self.config.hours is not None
        allowed = max(self.config.hours * 3600 - self.state.ending - self.state.latest_update, 1e-9)
        return self.processes.largest((time.monotonic() - self.started) / allowed)

    def _astray(self) -> bool:
        """Say whether the latest update was left out: weights that lead there are no place to go on from."""
        return self.optimizer.skipped_in_a_row.item() > 0

    def _count_skipped(self) -> None:
        """Report updates that were left out, and give up when there are too many in a row."""
        skipped = int(self.optimizer.skipped.item())
        if skipped > self.state.skipped and self.processes.first:
            warning = f"the loss was not finite: the update is skipped ({skipped} so far)"
            self.run.report({"step": self.state.step, "warning": warning})
        self.state.skipped = skipped
        if self.optimizer.skipped_in_a_row.item() >= MOST_BAD_STEPS:
            raise ElectraError(
                f"the loss was not finite for {MOST_BAD_STEPS} steps in a row, up to step {self.state.step}: "
                f"{self.job.remedy}"
            )

    def _log(self, result: Any, rate: float) -> None:
        norm = self.optimizer.norm.item()  # waits for the device, so that the clock is read after its work
        position = self._position()
        loss = result.loss.detach().clone()
        self.processes.add_up(loss)
        if not self.processes.first:
            return
        now, (then, tokens_then) = time.monotonic(), self.logged
        speed = (self.state.tokens - tokens_then) / max(now - then, 1e-9)
        record: Record = {
            **position,
            "learning_rate": rate,
            "gradient_norm": norm,
            "skipped": self.state.skipped,
            "tokens_per_second": round(speed, 1),
            **self.job.metrics(result),
            "loss": loss.item() / self.processes.world_size,
        }
        if self.job.peak:
            record["peak_share"] = speed * self.job.flops_per_token / self.job.peak / self.processes.world_size
        self.logged = (time.monotonic(), self.state.tokens)
        self.run.report(record)

    def _evaluate(self) -> None:
        """Measure on held-out data; every process does, since an objective may average over all of them."""
        began = time.monotonic()
        try:
            found = self.job.evaluate(self._judge)
        except _Interrupted:
            return  # the run begins with it when it goes on
        self.state.evaluated = self.state.step
        position = self._position()  # after it: the clock may have run out meanwhile
        if found:
            if self.processes.first:
                self.run.report({**position, **{f"heldout_{name}": value for name, value in found.items()}})
            best = math.inf if self.state.best is None else self.state.best
            if self.state.step and found.get("loss", math.inf) < best:
                self.state.best = found["loss"]
                self._save(best=True)
        self.logged = (self.logged[0] + time.monotonic() - began, self.logged[1])

    def _judge(self, *inputs: Any) -> Any:
        """Call the module without an update, unless a stop is wanted: an evaluation may take long."""
        if self._is_stopped():
            raise _Interrupted
        return self.update.evaluate(*inputs)

    def _position(self) -> Record:
        """Say where the run stands; a matter of all processes where the clock decides."""
        return {
            "step": self.state.step,
            "tokens": self.state.tokens,
            "seconds": round(time.monotonic() - self.started, 3),
            "progress": round(min(1.0, self._progress()), 9),
        }

    def _save(self, best: bool = False) -> None:
        """Write a checkpoint, unless that of this step is written; as the best, again."""
        if self.saved_at == self.state.step and not best:
            return
        self.saved_at = self.state.step
        self._count_skipped()
        self.state.seconds = time.monotonic() - self.started
        if self.processes.first:
            self.checkpoints.save(self.job.module, self.optimizer, asdict(self.state), best)
