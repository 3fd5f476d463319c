"""Time variants against each other: they take turns, so that a busy machine slows all of them equally."""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import torch

from electra.recipes.bench.profile import Part
from electra.recipes.hardware import device_name, synchronize

Against = Literal["hf", "none"]
Work = Literal["pretrain", "encode"]
Given = TypeVar("Given")
Build = Callable[[], Callable[[Given], Any]]  # makes the function to time

WARM_UP = 2  # untimed calls after the first
REPETITION = 0.2  # minimum seconds, so that the clock and the wait for a GPU do not matter
LEAST_REPETITIONS = 3


@dataclass(frozen=True)
class Row:
    """The measurements of one variant."""

    work: Work  # one update, or encoding all texts once
    variant: str
    size: str
    batch: int
    seq: int  # tokens in each sequence, or in the longest text
    ms: float  # median of the repetitions
    ms_low: float  # quartiles
    ms_high: float
    tokens_s: float  # without padding
    mfu: float | None  # share of the GPU's measured matrix peak
    memory_gib: float | None  # peak on a CUDA GPU
    first_step_s: float  # building and first call, including compilation
    ratio: float  # time relative to the first variant's in the same turn: the median
    ratio_low: float  # quartiles
    ratio_high: float
    device: str


@dataclass(frozen=True)
class Bench:
    """The measurements of a model size and batch size."""

    rows: list[Row]
    parts: list[Part]  # of electra's step, if a profile was requested
    operations: dict[str, str]  # the implementation of each operation in it, likewise


class Trial(Generic[Given]):
    """A variant that is built, warmed up and then timed repeatedly."""

    def __init__(self, build: Build[Given], given: Given, device: torch.device) -> None:
        self.given, self.device, self.times = given, device, list[float]()
        on_cuda = device.type == "cuda"
        if on_cuda:  # before the first call: a CUDA graph allocates only when it is recorded
            torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device) if on_cuda else 0  # by the other variants
        began = time.perf_counter()
        self.work = build()
        self._run(1)
        self.first_step = time.perf_counter() - began
        self._run(WARM_UP - 1)
        once = self._run(1)
        self.memory = torch.cuda.max_memory_allocated(device) - before if on_cuda else None
        self.count = math.ceil(REPETITION / once)

    def repeat(self) -> None:
        """Time one repetition."""
        self.times.append(self._run(self.count) / self.count)

    def _run(self, count: int) -> float:
        """Return the seconds that `count` calls take."""
        began = time.perf_counter()
        for _ in range(count):
            self.work(self.given)
        synchronize(self.device)
        return time.perf_counter() - began


Trials = dict[str, Trial[Any]]  # by variant


def take_turns(
    variants: Mapping[str, Build[Given]],
    given: Given,
    device: torch.device,
    seconds: float,
    what: str,
    say: Callable[[str], None],
) -> Trials:
    """Warm up every variant, then time each of them once, and again, until the time is up."""
    trials: Trials = {}
    for name, build in variants.items():
        say(f"{what}: warming up {name}")
        trials[name] = Trial(build, given, device)
    say(f"{what}: timing for {seconds:g} seconds")
    end = time.perf_counter() + seconds
    while any(len(trial.times) < LEAST_REPETITIONS for trial in trials.values()) or time.perf_counter() < end:
        for trial in trials.values():
            trial.repeat()
    return trials


def measured(
    trials: Trials, work: Work, size: str, batch: int, length: int, *, tokens: int, peak_seconds: float | None
) -> Iterator[Row]:
    """Yield a row for each variant; `peak_seconds` is the time of the work at the peak of the hardware."""
    first = next(iter(trials.values())).times
    for name, trial in trials.items():
        low, median, high = statistics.quantiles(trial.times, n=4, method="inclusive")
        ratios = [own / other for own, other in zip(trial.times, first, strict=True)]
        ratio_low, ratio, ratio_high = statistics.quantiles(ratios, n=4, method="inclusive")
        yield Row(
            work=work,
            variant=name,
            size=size,
            batch=batch,
            seq=length,
            ms=round(1000 * median, 3),
            ms_low=round(1000 * low, 3),
            ms_high=round(1000 * high, 3),
            tokens_s=round(tokens / median, 1),
            mfu=round(peak_seconds / median, 4) if peak_seconds else None,
            memory_gib=None if trial.memory is None else round(trial.memory / 2**30, 3),
            first_step_s=round(trial.first_step, 3),
            ratio=round(ratio, 3),
            ratio_low=round(ratio_low, 3),
            ratio_high=round(ratio_high, 3),
            device=device_name(trial.device),
        )
