"""Plan a training run for a text and a number of hours: model, vocabulary size, batch size, number of updates.

docs/pretraining.md lists all the rules.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch

from electra.config.load import gather, load_config, text_override
from electra.config.schema import PretrainConfig
from electra.data.reading.sources import LOOKED_FOR
from electra.data.reading.text import Tally, read_documents
from electra.data.settings import Reading
from electra.errors import ConfigError, DataError, ElectraError
from electra.model.body import check_shape
from electra.model.precision import find_device
from electra.objectives.build import objective_class
from electra.recipes.flops import body_size, flops
from electra.recipes.hardware import device_name
from electra.recipes.speed import Speed, measure_speed
from electra.recipes.start import Start
from electra.recipes.verdict import doctor
from electra.training.schedule import total_steps

LENGTH = 128  # tokens per sequence, for every size: models learn mostly from nearby context
BYTES_PER_TOKEN = 4  # of UTF-8; close to it in English, Russian and Chinese
BYTES_PER_PIECE = 2000  # of text per vocabulary piece, so that each piece is seen often enough
SMALLEST_VOCABULARY, LARGEST_VOCABULARY = 1024, 30_522
PIECES_PER_CHARACTER = 2  # one for the start of a word, one for its inside, for every common character
COMMON, COUNTED = 0.999, 1_000_000  # characters that make up this share of the first million
TOKENS_PER_PARAMETER = 8  # of the body, read in training; with fewer, a smaller model does better (runs/sizes.py)
TEXT_PER_PARAMETER = 0.5  # tokens of text for each of these parameters; with fewer, they learn it by heart
MOST_EPOCHS = 40  # beyond this, more hours hardly help
WARMUP_SHARE, FEWEST_UPDATES, SMALLEST_BATCH = 0.06, 2000, 8
SHORT_LENGTH, SHORT_SHARE, MOST_SHORT = 16, 0.1, 1000  # tokens in short sequences; share and number of their updates
OPTIONS = {"train.hours": "--hours", "init": "--init", "out": "--out", "data": "TEXT"}  # instead of config keys
ONE_STAGE = "electra train plans one stage of training; for objectives with two use electra pretrain"
SAMPLE_BYTES = 1 << 26  # of text read to estimate its size
Case = Literal["uncased", "cased"]
Sources = dict[str, str | dict[str, Any]]  # a model's name: its preset, or its settings
MODERN = ("modern-7x256", "modern-12x256", "modern-10x384", "modern-19x512", "modern-22x768")
SIZES = dict.fromkeys(("cpu", "mps"), ("nano", "tiny", "quick")) | {"cuda": ("nano", "tiny", *MODERN)}
AS_IN_QUICK = dict.fromkeys(MODERN, ("objective.name=corrective",))  # its objective, for every size of its body
SHORT_FIRST = ("nano", "tiny")  # begin with short sequences


@dataclass(frozen=True)
class Plan:
    """A planned training run; it is stored next to the result and reused when the run resumes."""

    sources: list[str]
    hours: float
    overrides: list[str]
    device: str
    text_bytes: int  # estimated from a sample if the text is long
    text_known: bool  # False: text_bytes is only a lower bound
    text_tokens: int
    vocab_size: int  # requested; a short text may yield fewer pieces
    tokens_per_second: dict[str, float]  # measured, by preset
    preset: str
    settings: list[str]  # key=value on top of the preset
    train_hours: float  # less than `hours` if the text is too short for more
    steps: int  # expected in that time
    tokens: int
    epochs: float
    parameters: int
    flops: float
    case: Case = "uncased"  # of the vocabulary
    left_out: int = 0  # files in the folders that were skipped because of their extension
    left_out_example: str = ""
    init: str | None = None  # the model to start from
    new_vocabulary: bool = False  # instead of that model's
    base: dict[str, Any] = field(default_factory=dict)  # the settings of that model, instead of a preset
    lacks: list[str] = field(default_factory=list)  # what it lacks, which starts from random weights

    @property
    def trains_vocabulary(self) -> bool:
        """Whether the run has a vocabulary of its own text."""
        return self.init is None or self.new_vocabulary

    def config(self, *more: str) -> PretrainConfig:
        """Return the config of the run; the user's overrides take precedence over `more`."""
        return load_config(self.base or self.preset, self.settings, more, self.overrides)


def make_plan(
    texts: Sequence[str | Path],
    *,
    hours: float,
    overrides: Sequence[str],
    case: Case = "uncased",
    reading: Reading | None = None,
    start: Start | None = None,
) -> Plan:
    """Measure the text and the machine, and choose the largest model that they can train, unless one is given."""
    _check_request(hours, overrides)
    names = [str(name) for name in texts]
    tally = Tally()
    text = measure_text(names, tally, reading)
    text_tokens = max(1, text.size // BYTES_PER_TOKEN)
    available = text_tokens if text.known else math.inf  # what is read may only be the beginning
    base = start.config.model_dump(exclude_none=True) if start else {}
    pieces = vocabulary(text.size, text.characters)
    shape = _continued(start, pieces, overrides) if start else _shape(pieces, overrides)
    device = find_device(load_config(base or "tiny", [o for o in overrides if _key(o) == "device"]).device)
    sources: Sources = {start.source: base} if start else {name: name for name in SIZES[device.type]}
    candidates = fitting_sizes(sources, shape, overrides)
    _check_candidates(candidates, start)
    preset, affordable, speeds = _choose_size(candidates, hours, available, device)
    budget = [*shape, *_of_size(preset, sources[preset], overrides), f"train.hours={hours!r}"]
    settings = [*budget, *_training(sources[preset], budget, overrides, speeds[preset], affordable)]
    config = load_config(sources[preset], settings, overrides)
    steps = total_steps(config.train) or _steps(config, affordable)
    cost = flops(_with_steps(config, steps))
    return Plan(
        sources=names,
        hours=hours,
        overrides=list(overrides),
        device=device_name(device),
        text_bytes=text.size,
        text_known=text.known,
        text_tokens=text_tokens,
        vocab_size=config.model.vocab_size,
        tokens_per_second={name: round(speed.tokens_per_second, 1) for name, speed in speeds.items()},
        preset=preset,
        settings=settings,
        train_hours=cost.tokens / speeds[preset].tokens_per_second / 3600,
        steps=steps,
        tokens=cost.tokens,
        epochs=round(cost.tokens / text_tokens, 2),
        parameters=cost.parameters["joint"],
        flops=cost.train_flops,
        case=case,
        left_out=len(tally.ignored),
        left_out_example=min(tally.ignored, default=""),
        init=start.source if start else None,
        new_vocabulary=bool(start and start.new_vocabulary),
        base=base,
        lacks=start.lacks(config.objective) if start else [],
    )


def _check_request(hours: float, overrides: Sequence[str]) -> None:
    """Refuse hours that are no duration, overrides of what has an option of its own, and two stages."""
    if not 0 < hours < math.inf:
        raise ConfigError(f"hours has to be a number above 0, such as 0.5 or 12; found {hours:g}")
    for key, option in OPTIONS.items():
        if key in map(_key, overrides):
            raise ConfigError(f"{key} cannot be set here; use {option} instead")
    algorithm = gather(PretrainConfig, {}, overrides).get("objective.algorithm")
    if algorithm and algorithm.value == "two_stage":  # said before the plan chooses an objective without this key
        raise ConfigError(ONE_STAGE)


def _key(override: str) -> str:
    return override.partition("=")[0].strip()


def _shape(pieces: int, overrides: Sequence[str]) -> list[str]:
    """Return the settings shared by all sizes; short sequences are added later, when the number of updates is known."""
    length = _length(LENGTH, overrides)
    sizes = [f"model.vocab_size={pieces}", f"train.length={length}"]
    return [*sizes, f"train.start_length={length}", "train.length_warmup_steps=1"]


def _of_size(name: str, source: str | dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Return the settings of one size: the objective, and the longest input, which may exceed the sequences."""
    if not isinstance(source, str):
        return []
    longest = max(load_config(source).model.max_length, _length(LENGTH, overrides))
    return [*AS_IN_QUICK.get(name, ()), f"model.max_length={longest}"]


def _length(usual: int, overrides: Sequence[str]) -> int:
    """Return the tokens per sequence: the usual number, unless the overrides set it."""
    asked = gather(PretrainConfig, "tiny", [f"train.length={usual}"], overrides)["train.length"].value
    return asked if isinstance(asked, int) else usual  # what is no number is refused later


def _continued(start: Start, pieces: int, overrides: Sequence[str]) -> list[str]:
    """Return the settings to continue a model: its own sizes, and sequences as long as those it was trained on.

    A body whose length is free may continue with longer ones, if the overrides ask for them.
    """
    model = start.config.model
    length = _length(min(LENGTH, start.config.train.length), overrides)
    sizes = [f"model.vocab_size={pieces}"] if start.new_vocabulary else []
    if "max_length" in model.FREE:
        sizes.append(f"model.max_length={max(model.max_length, length)}")
    return [text_override("init", start.source), *sizes, f"train.length={length}"]


def _check_candidates(candidates: dict[str, PretrainConfig], start: Start | None) -> None:
    """Refuse two stages, and overrides of the shape of the model to start from; only its vocabulary may change."""
    for config in candidates.values():
        if start:
            changed = {"vocab_size": config.model.vocab_size} if start.new_vocabulary else {}
            check_shape(config.model, start.config.model.model_copy(update=changed), start.source)
        if len(objective_class(config.objective).stages(config.objective)) > 1:
            raise ConfigError(ONE_STAGE)


def _choose_size(
    candidates: dict[str, PretrainConfig], hours: float, text_tokens: float, device: torch.device
) -> tuple[str, float, dict[str, Speed]]:
    """Return the size to train, the tokens that it reads in the hours, and how fast the timed sizes are."""
    sizes, most = {name: body_size(config.model) for name, config in candidates.items()}, MOST_EPOCHS * text_tokens
    worthwhile = {name: candidates[name] for name in with_enough_text(sizes, text_tokens)}
    speeds = _speeds(worthwhile, sizes, hours, most, device)
    affordable = {name: min(hours * 3600 * speed.tokens_per_second, most) for name, speed in speeds.items()}
    chosen = choose(affordable, sizes)
    return chosen, affordable[chosen], speeds


def fitting_sizes(sources: Sources, shape: list[str], overrides: Sequence[str]) -> dict[str, PretrainConfig]:
    """Return the presets to choose from: those that have the body and the generator whose keys are set."""
    fitting: dict[str, PretrainConfig] = {}
    for name, source in sources.items():
        try:
            fitting[name] = load_config(source, shape, _of_size(name, source, overrides), overrides)
        except ConfigError as problem:
            unfit = problem
    if not fitting:
        raise unfit
    return fitting


def describe(plan: Plan) -> list[str]:
    """Return a plan as lines of text."""
    speeds = ", ".join(f"{name} {speed:,.0f}" for name, speed in plan.tokens_per_second.items())
    train = plan.config().train
    known = plan.text_known
    more = "" if known else "more than "
    epochs = f"{plan.epochs:.1f} epochs, " if known else ""
    left_out = f"{plan.left_out:,} file{'s' if plan.left_out > 1 else ''} without a text extension"
    lines = [
        f"text        {more}{plan.text_bytes / 1e6:,.1f} MB, {more or 'about '}{plan.text_tokens:,} tokens",
        f"machine     {plan.device}; measured tokens/s: {speeds}",
        f"model       {plan.preset}, {plan.parameters:,} parameters, vocabulary of {plan.vocab_size:,}",
        f"training    about {plan.steps:,} steps of {train.batch_size} sequences in {written_time(plan.train_hours)}",
        f"            {plan.tokens:,} tokens, {epochs}{plan.flops:.2e} FLOPs",
    ]
    if plan.init:
        lines += _describe_start(plan)
    if plan.left_out:
        lines.insert(1, f"skipped     {left_out}, such as {plan.left_out_example}; supported: {LOOKED_FOR}")
    if known and plan.train_hours < plan.hours and plan.epochs > 0.9 * MOST_EPOCHS:
        lines.append(f"            less than {written_time(plan.hours)}: over {MOST_EPOCHS} epochs would hardly help")
    if plan.train_hours > 1.05 * plan.hours:
        lines.append(f"            more than {written_time(plan.hours)}: train.steps or train.tokens takes precedence")
    if known and plan.epochs > 1.05 * MOST_EPOCHS:
        lines.append(f"            over {MOST_EPOCHS} epochs: add text or reduce the number of steps")
    return [*lines, *(f"warning     {warning}" for warning in doctor(plan.config()).shortage(plan.tokens))]


def _describe_start(plan: Plan) -> list[str]:
    """Return what was chosen to continue a model."""
    config = plan.config()
    train, fresh = config.train, "".join(f", a new {part}" for part in plan.lacks)
    warmup = f"{train.warmup_steps:,} step{'' if train.warmup_steps == 1 else 's'} of warm-up"
    rate = f"{train.optimizer} at a rate of {train.learning_rate:.2g}, {warmup}"
    return [
        f"            sequences of {train.length} tokens, {rate}",
        f"start       {plan.init} with {'a new' if plan.new_vocabulary else 'its own'} vocabulary{fresh}; "
        f"objective {config.objective.name}",
    ]


def written_time(hours: float) -> str:
    """Format hours in a suitable unit."""
    count, unit = round(hours, 2), "hour"
    if hours < 0.1:
        count, unit = round(60 * hours, 1), "minute"
    if hours < 1 / 60:
        count, unit = round(3600 * hours), "second"
    return f"{count:g} {unit}{'' if count == 1 else 's'}"


def _speeds(
    candidates: dict[str, PretrainConfig], sizes: dict[str, int], hours: float, most: float, device: torch.device
) -> dict[str, Speed]:
    """Time the candidates from the smallest up, as long as the next one could read enough tokens in the hours."""
    speeds: dict[str, Speed] = {}
    reach = most
    for name, config in candidates.items():
        if speeds and reach < TOKENS_PER_PARAMETER * sizes[name]:
            break  # larger models are even slower
        try:
            speeds[name] = measure_speed(config, device)
        except torch.OutOfMemoryError as problem:
            if not speeds:
                raise ElectraError("the GPU is out of memory; free some, or use --set device=cpu") from problem
            break  # a larger one will not fit either
        reach = min(reach, hours * 3600 * speeds[name].tokens_per_second)
    return speeds


def vocabulary(text_bytes: int, characters: int = 0) -> int:
    """Return the vocabulary size for a text of this many bytes and common characters."""
    wanted = max(text_bytes // BYTES_PER_PIECE, PIECES_PER_CHARACTER * characters)
    return min(max(wanted // 64 * 64, SMALLEST_VOCABULARY), LARGEST_VOCABULARY)


def with_enough_text(sizes: dict[str, int], text_tokens: float) -> list[str]:
    """Return the models for whose parameters there is enough text, or else the smallest."""
    enough = [name for name, size in sizes.items() if text_tokens >= TEXT_PER_PARAMETER * size]
    return enough or [min(sizes, key=sizes.__getitem__)]


def choose(affordable: dict[str, float], sizes: dict[str, int]) -> str:
    """Return the largest model whose training reads enough tokens for its parameters, or else the smallest."""
    enough = [name for name in affordable if affordable[name] >= TOKENS_PER_PARAMETER * sizes[name]]
    return max(enough or [min(affordable, key=sizes.__getitem__)], key=sizes.__getitem__)


class Measured(NamedTuple):
    """How much text there is."""

    size: int  # bytes, estimated if the text is long
    known: bool  # False: the bytes are those of a sample
    characters: int  # different ones that are common


def measure_text(names: Sequence[str], tally: Tally | None = None, reading: Reading | None = None) -> Measured:
    """Read a text, or the beginning of a long one, and return how much there is."""
    if "-" in names:
        raise DataError("the text is read more than once, so it cannot come from standard input; name files instead")
    tally, size, beginning = tally or Tally(), 0, ""
    for passage in read_documents(names, reading, tally):
        size += len(passage.text.encode()) + 1
        if len(beginning) < COUNTED:
            beginning += passage.text[:COUNTED]
        if size >= SAMPLE_BYTES:
            break
    if not size:
        raise DataError(f"no text in {' '.join(names)}")
    characters = _common(Counter(beginning))
    if size < SAMPLE_BYTES:
        return Measured(size, True, characters)
    if tally.total_bytes is None or not tally.bytes_read:
        return Measured(size, False, characters)
    return Measured(int(size * max(1.0, tally.total_bytes / tally.bytes_read)), True, characters)


def _common(counts: Counter[str]) -> int:
    """Return how many characters, from the most frequent on, make up nearly all of the counted ones."""
    reached = np.cumsum([count for _, count in counts.most_common()])
    return int(np.searchsorted(reached, COMMON * counts.total())) + 1


def _training(
    source: str | dict[str, Any], budget: list[str], overrides: Sequence[str], speed: Speed, affordable: float
) -> list[str]:
    """Return the batch size, halved until there are enough updates, and all settings that depend on their number."""
    asked = load_config(source, budget, overrides).train
    tokens, batch, length = asked.tokens or affordable, asked.batch_size, asked.length
    divisor = asked.micro_batch_size or 1
    while batch >= 2 * SMALLEST_BATCH and batch % (2 * divisor) == 0 and tokens < FEWEST_UPDATES * batch * length:
        batch //= 2
    config = load_config(source, [*budget, f"train.batch_size={batch}"], overrides)  # the user's batch size, if set
    batch, steps = config.train.batch_size, total_steps(config.train) or _steps(config, affordable)
    often = max(10, steps // 20)
    short = max(1, min(MOST_SHORT, int(SHORT_SHARE * steps)))
    growing = [f"train.start_length={SHORT_LENGTH}", f"train.length_warmup_steps={short}"]
    return [
        *(growing if source in SHORT_FIRST and length % SHORT_LENGTH == 0 else []),
        f"train.batch_size={batch}",
        f"train.micro_batch_size={math.gcd(batch, speed.micro_batch_size)}",
        f"train.warmup_steps={max(1, int(WARMUP_SHARE * steps))}",
        f"evaluate.every={often}",
        f"evaluate.batches={min(config.evaluate.batches, often // 5)}",  # at most a fifteenth of the time
        f"checkpoint.every={often}",
        f"log.every={max(1, min(50, steps // 100))}",
    ]


def _steps(config: PretrainConfig, tokens: float) -> int:
    """Return the number of steps that read this many tokens."""
    budget = {"steps": None, "hours": None, "tokens": max(1, int(tokens))}
    return total_steps(config.train.model_copy(update=budget)) or 1


def _with_steps(config: PretrainConfig, steps: int) -> PretrainConfig:
    train = config.train.model_copy(update={"steps": steps, "tokens": None, "hours": None})
    return config.model_copy(update={"train": train})
