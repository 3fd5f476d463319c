"""Fine-tuning: train each seed with the shared loop, score it on dev, and keep one model."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from electra.config.finetune import FinetuneConfig
from electra.config.load import load_finetune_config
from electra.data.checksums import is_intact
from electra.data.feeding.loader import moved
from electra.data.files import atomic_folder, read_sealed, read_table, write_json, write_sealed
from electra.data.mix import mix
from electra.data.storage import upload, working_copy
from electra.errors import CheckpointError, ConfigError, Diverged
from electra.model import ops
from electra.model.networks import TaskNetwork
from electra.model.precision import as_used, computing_type
from electra.model.task_model import TaskModel, write_task_model
from electra.recipes.evaluate import forward
from electra.recipes.hardware import fitting, record_environment
from electra.recipes.parts import Part, result_of, runs_of
from electra.recipes.results import Results, chosen_seed, read_seed, scored, summarize_seeds
from electra.recipes.smoothness import roughness
from electra.recipes.tuning import Tuning, new_network, prepare
from electra.tasks.base import Batch
from electra.tasks.batches import BUCKET, make_batch, rounded_length, training_order
from electra.training.checkpoint import Checkpoints, NoCheckpoints
from electra.training.loop import Every, Training, train
from electra.training.processes import Processes, joined
from electra.training.progress import watched
from electra.training.run import DIVERGED, Listener, Record, Run, held, tell
from electra.training.update import Network

BEST = "best.json"
CONSTANT = (
    "every example of dev gets the same answer, so nothing was learned: try other rates, "
    "'learning_rates=[1e-4, 3e-4, 1e-3]', or more epochs"
)


class Outcome(NamedTuple):
    """What a forward pass returns."""

    loss: Tensor


class TaskLoss(nn.Module):
    """A network with the loss of a task."""

    def __init__(self, network: TaskNetwork, tuning: Tuning) -> None:
        super().__init__()
        self.encoder, self.head, self.tuning = network.encoder, network.head, tuning

    def forward(self, batch: Batch) -> Outcome:
        """Return the loss of a batch."""
        task, smoothness = self.tuning.task, self.tuning.config.smoothness
        hidden = task.states(self.encoder, self.head, batch)
        loss = task.loss(self.head, hidden, batch)
        if smoothness:
            loss = loss + smoothness * roughness(self.encoder.embeddings, lambda: self._change(hidden, batch))
        return Outcome(loss)

    def _change(self, hidden: Tensor, batch: Batch) -> Tensor:
        task = self.tuning.task
        return task.change(self.head, hidden, task.states(self.encoder, self.head, batch), batch)

    def recordable(self, batch: Batch) -> bool:
        """Return whether a CUDA graph can record the passes of a batch."""
        return self.tuning.task.recordable(batch)

    def rate(self, name: str) -> float:
        """Return the multiple of the learning rate for a parameter: smaller from block to block downwards."""
        part, _, rest = name.partition(".")
        return self.tuning.rate(self.encoder.height(rest)) if part == "encoder" else 1.0

    def share(self, batch: Batch) -> float:
        """Count every batch the same."""
        return 1.0


def finetune(config: FinetuneConfig, listeners: Sequence[Listener] | None = None, together: int = 1) -> Results:
    """Fine-tune with every seed that is not done yet, keep one model, and return the content of `results.json`.

    Each listener receives the records of `metrics.jsonl`; by default, progress is shown in a terminal or a notebook.
    If `together` is more than 1, as many seeds train at the same time, in worker processes. Listeners then receive
    their warnings, and a record when one is done.
    """
    if config.out is None:
        raise ConfigError("no output folder: set out=RUN")
    with watched(listeners) as listeners, _device(config) as single:
        tuning = prepare(config)
        for said in tuning.task.detected():
            tell(listeners, {"detected": said})
        if together > 1 and tuning.config.parts > 1:
            from electra.recipes.together import finetune_parts  # which imports this module

            finetune_parts(tuning.config, together, listeners)
        return _finish(tuning, single, listeners)


@contextmanager
def _device(config: FinetuneConfig) -> Iterator[Processes]:
    with joined(config.device) as processes:
        if processes.world_size > 1:
            raise ConfigError("fine-tuning uses one device: start it without torchrun")
        ops.prepare(processes.device)
        yield Processes(0, 1, processes.device)  # without a group


def _finish(tuning: Tuning, processes: Processes, listeners: Sequence[Listener]) -> Results:
    """Do what is left of a fine-tuning."""
    assert tuning.config.out is not None
    work = _sweep if tuning.config.learning_rates else _tune
    with working_copy(tuning.config.out) as folder:
        return work(tuning, folder, processes, listeners)


def finetune_part(
    config: FinetuneConfig,
    part: Part | None,
    listeners: Sequence[Listener],
    prepare: Callable[[FinetuneConfig], Tuning] = prepare,
) -> Results:
    """Do a part of a fine-tuning whose folder another process has locked, or without a part all that is left."""
    assert config.out is not None
    with _device(config) as single:
        tuning = prepare(config)
        if not part:
            return _finish(tuning, single, listeners)
        folder = Path(config.out).expanduser()
        (one, place), found = runs_of(tuning.config, folder)[part.run], tuning.fingerprints()
        for run in {folder, place}:
            Run(run).check_inputs(found)
        try:
            _Seed(replace(tuning, config=one), part.seed, place, single, listeners).result()
        except Diverged:
            if not config.learning_rates:  # `_sweep` leaves such a rate out
                raise
        return {}


def _tune(tuning: Tuning, folder: Path, processes: Processes, listeners: Sequence[Listener]) -> Results:
    """Fine-tune with one learning rate."""
    run = Run(folder)
    with run.open(tuning.config, load_finetune_config):
        run.check_inputs(tuning.fingerprints())
        seeds = [_Seed(tuning, seed, folder, processes, listeners).result() for seed in tuning.config.seed_list]
        kept = chosen_seed(seeds, tuning.task.metric, tuning.config.keep)
        _Seed(tuning, kept, folder, processes, listeners).move_model(folder / "model")
        results = _describe(tuning) | {"kept": kept, "seeds": seeds} | summarize_seeds(seeds)
        run.write_config(tuning.config)  # with the number of seeds, and which one is kept
        write_json(folder / "results.json", results)
        for model in (folder / "seeds").glob("*/model"):
            shutil.rmtree(model)
    return results


def _describe(tuning: Tuning) -> Results:
    config, baseline = tuning.config, tuning.task.baseline(tuning.dev.examples)
    return {
        "task": tuning.task.name,
        "protocol": config.protocol,
        "metric": tuning.task.metric,
        "detected": tuning.task.detected(),
        "model": config.model,
        "start": f"tuned on {tuning.tuned_on}" if tuning.tuned_on and config.start == "pretrained" else config.start,
        "head": config.head,
        "learning_rate": config.learning_rate,
        "train_file": config.train_file,
        "dev_file": config.dev_file,
        "early_stopping": config.early_stopping,
        "examples": {"train": len(tuning.train.examples), "dev": len(tuning.dev.examples)},
        "notes": {"train": tuning.train.notes, "dev": tuning.dev.notes},
        **({"baseline": baseline} if baseline else {}),
    }


def _sweep(tuning: Tuning, folder: Path, processes: Processes, listeners: Sequence[Listener]) -> Results:
    """Fine-tune with each learning rate, and keep the run with the best median on dev; some rates may be too high."""
    config, run = tuning.config, Run(folder)
    with run.open(config, load_finetune_config):
        run.check_inputs(tuning.fingerprints())
        found: dict[float, Results] = {}
        failure: Diverged | None = None
        for rate, (one, place) in zip(config.learning_rates, runs_of(config, folder), strict=True):
            tell(listeners, {"detected": f"learning rate {rate:g}"})
            try:
                found[rate] = _tune(replace(tuning, config=one), place, processes, listeners)
            except Diverged as problem:
                failure = problem
                tell(listeners, {"warning": f"learning rate {rate:g} is left out: {problem}"})
        if not found and failure:
            raise failure
        best = max(found.values(), key=lambda results: results["median"][results["metric"]])
        with atomic_folder(folder / "model", overwrite=True) as model:
            shutil.copytree(folder / f"rate-{best['learning_rate']:g}" / "model", model, dirs_exist_ok=True)
        results = best | {
            "sweep": {f"{rate:g}": results["median"] for rate, results in found.items()},
            "diverged": [f"{rate:g}" for rate in config.learning_rates if rate not in found],
        }
        run.write_config(config)
        write_json(folder / "results.json", results)
    return results


class _Scored(NamedTuple):
    """The result of a model on dev."""

    metrics: dict[str, float]
    known: dict[str, Any]  # what the stored model needs to know of its task besides the config
    constant: bool  # whether all examples get the same answer


class _Seed(Training):
    """The training of one seed. Its folder has the best model so far and its scores, and finally `result.json`."""

    remedy = "lower learning_rate or raise warmup_fraction, with another out"

    def __init__(
        self, tuning: Tuning, seed: int, run: Path, processes: Processes, listeners: Sequence[Listener]
    ) -> None:
        self.tuning, self.seed, self.processes = tuning, seed, processes
        self.run, self.stored = run, result_of(run, seed)
        self.folder = self.stored.parent
        self.checkpoints = self.folder / "checkpoints"
        self.listeners, self.warnings = listeners, []
        self.lengths = np.array([len(feature.ids) for feature in tuning.train.features])
        self.step = 0
        self.best: dict[str, Any] | None = None  # the model that is kept so far: metrics, steps, constant

    def result(self) -> dict[str, Any]:
        """Return the scores, after training if necessary."""
        self._fit()
        found = read_seed(self.stored)
        upload(self.folder)
        return found

    def move_model(self, place: Path) -> None:
        """Make this seed's model that of the run; train it again if it was not kept."""
        kept = place / "seed.json"
        if kept.is_file() and kept.read_bytes().strip() == str(self.seed).encode() and is_intact(place):
            return
        if not is_intact(self.folder / "model"):
            self.stored.unlink(missing_ok=True)  # not done, if this training is interrupted
            self._fit()
        with atomic_folder(place, overwrite=True) as written:
            shutil.copytree(self.folder / "model", written, dirs_exist_ok=True)
            write_json(written / kept.name, self.seed)

    def _fit(self) -> None:
        """Train unless there is a result, and remove what only training needs."""
        config, diverged = self.tuning.config, self.folder / DIVERGED
        what = f"batches of {config.batch_size} inputs of up to {config.max_length} tokens"
        if not self.stored.is_file():
            if found := read_sealed(diverged):
                raise Diverged(found["reason"])
            with held(self.folder), fitting(what, "halve batch_size, with another out"):
                try:
                    self._train()
                except Diverged as problem:
                    write_sealed(diverged, {"reason": str(problem)})
                    raise
        (self.folder / BEST).unlink(missing_ok=True)
        if self.checkpoints.is_dir():
            shutil.rmtree(self.checkpoints)

    def _train(self) -> None:
        config = self.tuning.config
        self.folder.mkdir(parents=True, exist_ok=True)
        torch.manual_seed(mix(self.seed))
        self.network = new_network(self.tuning).to(self.processes.device).train()
        steps, self.module = self.tuning.steps, TaskLoss(self.network, self.tuning)
        self.every = Every(self.tuning.steps_per_epoch, config.checkpoint_every or steps, config.log_every)
        checkpoints = Checkpoints(self.checkpoints, keep=1) if config.checkpoint_every else NoCheckpoints()
        kept = self.folder / BEST
        # Without updates it is left over from an attempt without checkpoints.
        if checkpoints.hold_updates() and kept.is_file():
            self.best = read_table(kept, "the scores of the best model so far", CheckpointError)
        run = Run(self.folder, [self._tell])
        state = train(self, self.tuning.training, run, checkpoints, self.processes)
        if not config.early_stopping:
            self._keep(self._score(), steps)
        assert self.best is not None
        if self.best.get("constant"):
            run.report({"step": self.step, "warning": CONSTANT})
        speed = {"seconds": round(state.seconds, 3), "tokens_per_second": round(state.tokens / state.seconds, 1)}
        write_sealed(self.stored, {"seed": self.seed, **self.best, **speed})

    def _tell(self, record: Record) -> None:
        warning = {"warning": f"seed {self.seed}: {record['warning']}"} if "warning" in record else {}
        tell(self.listeners, {"seed": self.seed, **record, **warning})

    def begin(self) -> None:
        record_environment(self.run, self.processes)

    def updates(self, step: int) -> Iterator[tuple[int, list[tuple[Batch]]]]:
        self.step = step  # at once, not with the first batch: `enough` looks at it
        return self._stream()

    def _stream(self) -> Iterator[tuple[int, list[tuple[Batch]]]]:
        tuning, config, device = self.tuning, self.tuning.config, self.processes.device
        assert config.max_length is not None
        rows, group, pad_id = tuning.batch_size * tuning.task.group, tuning.task.group, tuning.start.tokenizer.pad_id
        packs = self.network.encoder.packs(computing_type(config, device), device)
        bucket = 1 if packs else BUCKET  # without padding, a batch may have texts of any length
        while True:
            epoch, place = divmod(self.step, tuning.steps_per_epoch)
            order = training_order(self.lengths, tuning.batch_size, self.seed, epoch, group, bucket)
            for chosen in order[place:]:
                features = [tuning.train.features[index] for index in chosen]
                longest = int((self.lengths if packs else self.lengths[chosen]).max())
                # A GPU records a graph for each shape; elsewhere padding only costs time.
                length = rounded_length(longest, config.max_length) if device.type == "cuda" else longest
                batch = make_batch(tuning.task, features, rows, length, pad_id, packs)
                sent = {name: moved(part, device) for name, part in batch.items()}
                self.step += 1
                torch.manual_seed(mix(self.seed, self.step))  # for dropout
                yield int(self.lengths[chosen].sum()), [(sent,)]

    def _score(self) -> _Scored:
        tuning = self.tuning
        used = as_used(self.network.eval(), tuning.config)
        outputs = forward(used, tuning.task, tuning.dev.features, tuning.start.tokenizer, tuning.config)
        self.network.train()
        predictions = tuning.task.predictions(tuning.dev.examples, tuning.dev.features, outputs)
        return _Scored(
            metrics=scored(tuning.task, tuning.dev.examples, predictions),
            known=tuning.task.describe() | tuning.task.calibrate(tuning.dev.examples, predictions),
            constant=tuning.task.is_constant(tuning.dev.examples, predictions),
        )

    def evaluate(self, network: Network) -> dict[str, float]:
        """With early stopping, score the model on dev, and keep it if it is the best so far."""
        if self.step == 0 or not self.tuning.config.early_stopping:
            return {}
        scored, metric = self._score(), self.tuning.task.metric
        if self.best is None or self.best["metrics"][metric] < scored.metrics[metric]:
            self._keep(scored, self.step)
        return scored.metrics

    def enough(self) -> bool:
        patience, epoch = self.tuning.config.early_stopping, self.tuning.steps_per_epoch
        if patience is None or self.best is None:
            return False
        return bool(self.step // epoch - self.best["steps"] // epoch >= patience)

    def _keep(self, scored: _Scored, steps: int) -> None:
        tuning = self.tuning
        config = tuning.config.model_dump(exclude_none=True)
        described = {"name": tuning.task.name, "config": config, "known": scored.known}
        with atomic_folder(self.folder / "model", overwrite=True) as folder:
            tokenizer = tuning.start.tokenizer.of_length(tuning.config.max_length)
            write_task_model(TaskModel(self.network, tokenizer, described), folder)
        self.best = {"metrics": scored.metrics, "steps": steps, "constant": scored.constant}
        write_json(self.folder / BEST, self.best)
