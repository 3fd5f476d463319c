"""Score a fine-tuned model on a split, or predict with it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from electra.config.finetune import FinetuneConfig
from electra.config.keys import did_you_mean
from electra.config.load import Settings, gather, validate
from electra.data.cluster import absolute, connected
from electra.data.feeding.loader import moved
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import DataError, Diverged, TaskError
from electra.model.networks import TaskNetwork
from electra.model.precision import as_used, autocast, computing_type, device_of
from electra.model.pretrained import find_folder
from electra.model.task_model import read_task, read_task_model
from electra.recipes.pairs import BLIMP, compare_pairs
from electra.recipes.results import Evaluation, read_results, scored
from electra.recipes.tuning import check_length, check_types
from electra.tasks.base import AnyTask, Feature, Notes, Output, Prediction, Split
from electra.tasks.batches import evaluation_order, make_batch
from electra.tasks.build import TASKS, build_task, serve
from electra.training.run import run_of

FOREIGN = {"head": "huggingface"}  # settings of a model that another program fine-tuned
ROWS, BLOCK = 64, 1024  # examples in an evaluation batch, and in memory at a time during prediction
FILES = {"train_file", "dev_file", "test_file"}  # that replace those in the data folder


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned model with its task, ready to predict."""

    network: TaskNetwork
    tokenizer: Tokenizer
    task: AnyTask
    config: FinetuneConfig

    @cached_property
    def used(self) -> TaskNetwork:
        """The network in the precision of inference."""
        return as_used(self.network.eval(), self.config)

    def predict(self, examples: Sequence[Any], notes: Notes) -> list[Prediction]:
        """Return one prediction for each example, in order."""
        assert self.config.max_length is not None
        features = self.task.features(examples, self.tokenizer, self.config.max_length, notes, training=False)
        check_types(features, self.network.encoder.config)
        outputs = forward(self.used, self.task, features, self.tokenizer, self.config)
        return self.task.predictions(examples, features, outputs)


def evaluate(run: str | Path, overrides: Iterable[str] = (), split: Split = "dev") -> Evaluation:
    """Score a fine-tuned run on a split; `overrides` such as data=DIR change the source of the examples.

    `task=blimp` compares minimal pairs, for which a model needs no fine-tuning.
    """
    if split not in get_args(Split):
        raise TaskError(f"split={split!r}: choose {', '.join(get_args(Split))}")
    overrides = list(overrides)
    settings = gather(FinetuneConfig, FOREIGN, overrides)
    said = {key for key, setting in settings.items() if setting.origin == "command line"}
    wanted = settings["task"].value if "task" in settings else None
    if wanted == BLIMP:
        if unused := sorted(said - {"task", "data", "device"}):
            raise TaskError(f"task={BLIMP} has no setting {unused[0]}; it takes data=DIR and device=DEVICE")
        config = validate(FinetuneConfig, settings)
        return compare_pairs(run, config.data, config.device)
    if wanted is not None and wanted not in TASKS:
        raise TaskError(f"no task {wanted!r}{did_you_mean(str(wanted), [*TASKS, BLIMP])}")
    tuned = load_tuned(run, overrides)
    task, notes = tuned.task, Notes()
    examples = task.read(split, notes)
    if split == "dev" and said.isdisjoint({"task", "data", "dev_file"}) and (compared := _compared(run, tuned)) > 1:
        notes.add(
            "trainings were compared on these examples to choose this model, so the score is optimistic", compared
        )
    predictions = tuned.predict(examples, notes)
    pairs = zip(examples, predictions, strict=True)
    labeled = [(example, prediction) for example, prediction in pairs if task.is_labeled(example)]
    metrics, baseline, files = {}, {}, task.files(examples, predictions)
    if labeled:
        notes.add("examples without a label, not scored", len(examples) - len(labeled))
        truth, guess = zip(*labeled, strict=True)
        metrics, baseline = scored(task, truth, guess), task.baseline(truth)
        files |= task.pictures(truth, guess)
    source = _source(split, settings)
    return Evaluation(task.name, split, source, metrics, dict(notes.counts), predictions, files, baseline)


def _compared(run: str | Path, tuned: Tuned) -> int:
    """Return how many trainings were compared on dev to choose the model: seeds, times learning rates."""
    place = run_of(find_folder(run))
    if place is None or not (place / "results.json").is_file():
        return 1
    results = read_results(place / "results.json")
    return (len(results["seeds"]) if tuned.config.keep == "best" else 1) * max(1, len(results.get("sweep", ())))


def _source(split: Split, said: Settings) -> str:
    """Return what is scored, in words: a split, or what the user named instead."""
    if file := said.get(f"{split}_file"):
        return str(file.value)
    if data := said.get("data"):
        return str(data.value) if Path(data.value).expanduser().is_file() else f"{split} of {data.value}"
    return split


def predict(
    run: str | Path,
    source: str | Path,
    overrides: Iterable[str] = (),
    notes: Notes | None = None,
    cluster: str | None = None,
) -> Iterator[Prediction]:
    """Yield a prediction for each example of a file or of stdin (`-`); `notes` counts truncated and skipped ones.

    `cluster` is the address of a Ray cluster, or `auto`, whose nodes predict; all of them must be able to read `run`.
    """
    if Path(source).expanduser().is_dir():
        raise DataError(f"{source} is a folder; name a file to predict")
    predictor = _Predictor(str(run), list(overrides))
    counted = notes or Notes()
    examples = predictor.tuned.task.inputs(str(source), counted)
    blocks = iter(lambda: list(islice(examples, BLOCK)), [])
    with connected(cluster) if cluster else nullcontext() as nodes:
        there = _Predictor(absolute(run), predictor.overrides)  # without the model, which every node loads itself
        answers = nodes.in_order(there, blocks) if nodes else ((None, predictor(b)) for b in blocks)
        for _, (predictions, found) in answers:
            counted.counts.update(found.counts)
            yield from predictions


@dataclass(frozen=True)
class _Predictor:
    """Predicts blocks of examples with a run, which it loads when the first one comes."""

    run: str
    overrides: list[str]

    @cached_property
    def tuned(self) -> Tuned:
        """The model and its task."""
        return load_tuned(self.run, self.overrides)

    def __call__(self, examples: Sequence[Any]) -> tuple[list[Prediction], Notes]:
        notes = Notes()
        return self.tuned.predict(examples, notes), notes


def load_tuned(run: str | Path, overrides: Iterable[str] = ()) -> Tuned:
    """Load a fine-tuned run with its task, as its stored config and the `overrides` say."""
    stored = read_task(find_folder(run))
    config, device = _configured(stored.get("config", FOREIGN), overrides)
    model = read_task_model(run, device)
    network, shape = model.network, model.network.encoder.config
    if "config" in stored and "known" not in stored:
        raise TaskError(f"the task.json of {run} is damaged: it has no entry 'known'")
    name, known = (config.task, stored["known"]) if "config" in stored else serve(network)
    longest = min(shape.max_length, model.tokenizer.longest or shape.max_length)
    usual = {"task": config.task or name, "max_length": config.max_length or longest}
    config = config.model_copy(update=usual)
    try:
        task = build_task(config, known)
    except (KeyError, TypeError, ValueError, OverflowError):
        reason = f"'known' does not describe task {config.task}"
        raise TaskError(f"the task.json of {run} is damaged: {reason}; restore it or fine-tune again") from None
    check_length(config, shape)
    if not task.fits(network):
        found = ", ".join(network.labels) or network.head.architecture
        wanted = f", not {', '.join(task.labels)}" if task.labels else ""
        raise TaskError(f"the head of {run} does not fit task {task.name}: it predicts {found}{wanted}")
    return Tuned(network, model.tokenizer, task, config)


def _configured(stored: Mapping[str, Any], overrides: Iterable[str]) -> tuple[FinetuneConfig, str | None]:
    """Return the config, and the device if `overrides` set it: the stored one may not exist here.

    The stored files are those of the stored data and task.
    """
    settings = gather(FinetuneConfig, stored, overrides)
    said = {key for key, setting in settings.items() if setting.origin == "command line"}
    others = "data" in said or ("task" in said and settings["task"].value != stored.get("task"))
    if others and not said & FILES:
        settings = {key: setting for key, setting in settings.items() if key not in FILES}
    config = validate(FinetuneConfig, settings)
    return config, config.device if "device" in said else None


@torch.inference_mode()
def forward(
    network: TaskNetwork, task: AnyTask, features: Sequence[Feature[Any]], tokenizer: Tokenizer, config: FinetuneConfig
) -> list[Output]:
    """Run a network over features in batches of similar length; return the outputs of each feature, in order."""
    device = device_of(network)
    packs = network.encoder.packs(computing_type(config, device), device)
    outputs: list[Output] = [{}] * len(features)
    lengths = np.array([len(feature.ids) for feature in features])
    for chosen in evaluation_order(lengths, ROWS):
        of_batch, longest = [features[index] for index in chosen], int(lengths[chosen].max())
        batch = make_batch(task, of_batch, len(chosen), longest, tokenizer.pad_id, packs)
        batch = {name: moved(tensor, device) for name, tensor in batch.items()}
        with autocast(config, device), network.encoder.inferring():
            found = task.outputs(network.head, task.states(network.encoder, network.head, batch), batch)
        arrays = {name: _array(tensor) for name, tensor in found.items()}
        if any(np.isnan(array).any() for array in arrays.values()):
            raise Diverged("the network's outputs are NaN: train it again with a lower learning_rate")
        for row, index in enumerate(chosen):
            outputs[index] = {name: array[row] for name, array in arrays.items()}
    return outputs


def _array(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()
