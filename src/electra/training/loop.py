"""The training loop. It knows no objective and no task: it is handed a `Training`, whose module returns a loss."""

import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any, NamedTuple

from torch import Tensor, nn

from electra.config.schema import TrainConfig
from electra.errors import CheckpointError, Diverged, ElectraError, Stopped
from electra.training.checkpoint import Checkpoints
from electra.training.pace import Stragglers
from electra.training.processes import Processes
from electra.training.run import Record, Run
from electra.training.schedule import learning_rate, total_steps
from electra.training.update import MicroBatches, Network, Update

MOST_BAD_STEPS = 20  # consecutive updates without a finite gradient before a run gives up


class Every(NamedTuple):
    """Updates between evaluations, checkpoints and lines of the log."""

    evaluate: int
    checkpoint: int
    log: int


class Training(ABC):
    """What the loop trains: a module on its data."""

    module: nn.Module  # a `Learner`: maps a micro-batch to a result with a loss
    every: Every
    remedy: str  # what to do if the loss is not finite
    more_time: str = ""  # what to do if the time is over before the first update
    warnings: list[str]  # reported before the first step

    @abstractmethod
    def updates(self, step: int) -> Iterator[tuple[int, MicroBatches]]:
        """Yield the tokens and micro-batches of every update from a step on."""

    @abstractmethod
    def evaluate(self, network: Network) -> dict[str, float]:
        """Measure the module on held-out data, the same in all processes; `loss`, if present, ranks the checkpoints."""

    def begin(self) -> None:  # noqa: B027
        """Prepare for the first update of this process; not called when the budget is spent already."""

    def metrics(self, result: Any, tokens_per_second: float) -> dict[str, float]:
        """Return what to log of an update besides its loss."""
        return {}

    def enough(self) -> bool:
        """Return whether more training would not help; asked before every update."""
        return False

    def finish(self) -> None:  # noqa: B027
        """Write the result, also when the run is interrupted after an update."""


@dataclass
class State:
    """The progress of a run, stored in every checkpoint."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    skipped: int = 0  # updates skipped because the gradient was not finite
    best: float | None = None  # lowest held-out loss
    evaluated: int = 0  # step of the latest evaluation
    latest_update: float = 0.0  # duration of the last update in seconds, so that the budget is not overrun
    ending: float = 0.0  # expected duration of the end: an evaluation, a checkpoint, the model


class _Stop:
    """Remembers SIGTERM or Ctrl-C, so that the loop stops after the current update; a second Ctrl-C stops at once."""

    signal: int | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.signal and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Handle the signals; one that the loop did not act on is raised again for the previous handler."""
        if threading.current_thread() is not threading.main_thread():  # only the main thread can set handlers
            yield
            return
        heard = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) != signal.SIG_IGN]
        before = {number: signal.signal(number, self) for number in heard}  # background jobs of a shell ignore Ctrl-C
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self.signal:
            signal.raise_signal(self.signal)


class _Interrupted(Exception):
    """A signal interrupted an evaluation."""


def train(training: Training, config: TrainConfig, run: Run, checkpoints: Checkpoints, processes: Processes) -> State:
    """Train from the newest checkpoint until the budget is spent or it is enough; an earlier stop is an error."""
    trainer = _Trainer(training, config, run, checkpoints, processes)
    with trainer.stop.listening():
        try:
            trainer.work()
        finally:
            checkpoints.close()
            trainer.update.release()
    return trainer.state


class _Trainer:
    def __init__(
        self, training: Training, config: TrainConfig, run: Run, checkpoints: Checkpoints, processes: Processes
    ) -> None:
        self.training, self.config, self.run = training, config, run
        self.checkpoints, self.processes = checkpoints, processes
        self.stop = _Stop()
        self.stragglers = Stragglers(processes.hosts)
        self.update = Update[Any](training.module, config, processes)
        self.optimizer = self.update.optimizer
        self.steps = total_steps(config)
        self.state = state = self._restored()
        self.optimizer.skipped.fill_(state.skipped)
        self.check_every = training.every.log if processes.device.type == "cuda" else 1  # reading it waits for the GPU
        self.started = time.monotonic() - state.seconds
        self.saved_at = state.step or None  # the step of the newest checkpoint
        self.ruined = False  # whether the latest evaluation had no finite loss
        self.logged = (time.monotonic(), state.tokens)

    def _restored(self) -> State:
        """Restore the newest intact checkpoint, and report what the user should know before the first update."""
        restored, folder = self.checkpoints.restore(self.training.module, self.optimizer), self.run.folder
        try:
            state = State(**restored.state) if restored else State()
        except TypeError:
            raise CheckpointError(f"{folder} was written by another version of electra; choose another out") from None
        if self.processes.largest(state.step) != -self.processes.largest(-state.step):
            raise CheckpointError(f"the processes see different checkpoints in {folder}: out must be a shared folder")
        warnings = [f"{path} is damaged; using an older checkpoint" for path in restored.damaged] if restored else []
        if self.processes.first:
            self.run.rewind(state.step or -1)  # a checkpoint of step 0 equals a fresh start
            for warning in (*warnings, *(self.training.warnings if state.step == 0 else ())):
                self.run.report({"step": state.step, "warning": warning})
        return state

    def _begin(self) -> None:
        """Save and evaluate the untrained network: shows a full disk early, and how long the end will take."""
        self._save()
        began = time.monotonic()
        self._evaluate()
        evaluating, saving = time.monotonic() - began, self.checkpoints.wait()
        self.state.ending = evaluating + 2 * saving  # writing the model takes as long as a checkpoint

    def work(self) -> None:
        """Update until the budget is spent or a signal arrives."""
        training, state = self.training, self.state
        if state.step == 0:
            self._begin()
        updates = training.updates(state.step)
        progress = self._progress()
        if progress >= 1 and state.step == 0:  # never announce an untrained model as trained
            reason = f"evaluating and saving take {state.ending:,.0f} seconds"
            raise ElectraError(f"the time is over before the first update: {reason}; {training.more_time}")
        if progress < 1 and not training.enough():
            training.begin()
        if state.evaluated < state.step and self._is_evaluated(progress):  # the run was stopped before it
            self._evaluate()
            self.saved_at = None  # the checkpoint says that it was not evaluated
        while progress < 1 and not training.enough() and not self._is_stopped():
            began = time.monotonic()
            tokens, micro_batches = next(updates)
            rate = learning_rate(self.config, state.step, progress)
            result, loss = self.update(micro_batches, rate)
            state.step += 1
            state.tokens += tokens
            if state.step % self.check_every == 0:
                self._count_skipped()
            state.latest_update = time.monotonic() - began
            progress = self._progress()
            early = state.step < training.every.log and state.step.bit_count() == 1  # 1, 2, 4, 8, to show progress
            if early or state.step % training.every.log == 0 or progress >= 1:
                self._log(result, loss, rate)
            if self._is_evaluated(progress):
                self._evaluate()
                progress = self._progress()  # evaluating took time
            if state.step % training.every.checkpoint == 0 and not self._has_diverged():
                self._save()
        self._end(progress)

    def _end(self, progress: float) -> None:
        """Write the result; raise an error unless the run is complete."""
        training, state, diverged = self.training, self.state, self._has_diverged()
        if not diverged:
            self._save()
        self.checkpoints.wait()
        if not diverged and state.step:
            self.update.weights.complete()
            if self.processes.first:
                training.finish()
        self.processes.wait()
        if progress < 1 and not training.enough():  # an error, so that a script does not continue with half a model
            where, earlier = (", where the loss was not finite", " from an earlier step") if diverged else ("", "")
            again = f"resumes it{earlier}" if self.checkpoints.hold_updates() else "starts it again"
            message = f"{self.run.folder}: stopped at step {state.step:,}{where}; the same command {again}"
            raise Stopped(message, self.stop.signal or signal.SIGTERM)  # None: another process received it
        if diverged:
            raise Diverged(f"the loss was not finite at the end, step {state.step:,}: {training.remedy}")

    def _is_stopped(self) -> bool:
        """Return whether any process received a signal."""
        return self.processes.largest(float(self.stop.signal is not None)) > 0

    def _is_evaluated(self, progress: float) -> bool:
        """Return whether this step is followed by an evaluation."""
        return self.state.step % self.training.every.evaluate == 0 or progress >= 1

    def _progress(self) -> float:
        """Return the share of the budget that is spent."""
        if self.steps is not None:
            return self.state.step / self.steps
        assert self.config.hours is not None
        allowed = max(self.config.hours * 3600 - self.state.ending - self.state.latest_update, 1e-9)
        return self.processes.largest((time.monotonic() - self.started) / allowed)

    def _has_diverged(self) -> bool:
        """Return whether the latest update was skipped or ruined the network: such weights are not worth saving."""
        return self.ruined or self.optimizer.skipped_in_a_row.item() > 0

    def _count_skipped(self) -> None:
        """Report skipped updates, and give up after too many in a row."""
        skipped = int(self.optimizer.skipped.item())
        if skipped > self.state.skipped and self.processes.first:
            warning = f"the loss was not finite: the update is skipped ({skipped} so far)"
            self.run.report({"step": self.state.step, "warning": warning})
        self.state.skipped = skipped
        if self.optimizer.skipped_in_a_row.item() >= MOST_BAD_STEPS:
            when = f"{MOST_BAD_STEPS} steps in a row, up to step {self.state.step}"
            raise Diverged(f"the loss was not finite for {when}: {self.training.remedy}")

    def _log(self, result: Any, loss: Tensor, rate: float) -> None:
        norm = self.optimizer.norm.item()  # waits for the device, so that the clock is read after its work
        position = self._position()
        loss = loss.detach().clone()
        self.processes.add_up(loss)
        paces = self.processes.gathered(self.update.pace.seconds())
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
            **(self.stragglers.measure(paces) if len(paces) > 1 else {}),
            **self.training.metrics(result, speed),
            "loss": loss.item() / self.processes.world_size,
        }
        self.logged = (time.monotonic(), self.state.tokens)
        self.run.report(record)
        if len(paces) > 1:
            self.run.note_paces({"step": self.state.step, "seconds": [round(seconds, 6) for seconds in paces]})
        for warning in self.stragglers.warnings(paces):
            self.run.report({"step": self.state.step, "warning": warning})

    def _evaluate(self) -> None:
        """Evaluate on held-out data."""
        began = time.monotonic()
        try:
            found = self.training.evaluate(self._call)
        except _Interrupted:
            return  # the resumed run evaluates this step
        self.state.evaluated = self.state.step
        position = self._position()  # afterwards: the time may be over by now
        self.ruined = not math.isfinite(found.get("loss", 0.0))
        if found:
            if self.processes.first:
                self.run.report({**position, **{f"heldout_{name}": value for name, value in found.items()}})
            best = math.inf if self.state.best is None else self.state.best
            if self.state.step and found.get("loss", math.inf) < best:
                self.state.best = found["loss"]
                self._save(best=True)
        self.logged = (self.logged[0] + time.monotonic() - began, self.logged[1])

    def _call(self, *inputs: Any) -> Any:
        """Call the module without an update, unless a signal arrived: an evaluation may take long."""
        if self._is_stopped():
            raise _Interrupted
        return self.update.evaluate(*inputs)

    def _position(self) -> Record:
        """Return the position of the run; all processes must call it, since they agree on the time."""
        return {
            "step": self.state.step,
            "tokens": self.state.tokens,
            "seconds": round(time.monotonic() - self.started, 3),
            "progress": round(min(1.0, self._progress()), 9),
        }

    def _save(self, best: bool = False) -> None:
        """Write a checkpoint unless this step has one; the best is written again."""
        if self.saved_at == self.state.step and not best:
            return
        self.saved_at = self.state.step
        self._count_skipped()
        self.state.seconds = time.monotonic() - self.started
        self.checkpoints.save(self.training.module, self.optimizer, asdict(self.state), best)
