"""How fast one joint step is, beside the same step glued together from Hugging Face's modules.

Repetitions of all variants take turns, so that a busy machine slows them alike.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from electra.config.load import load_config
from electra.config.schema import PretrainConfig
from electra.data.tokens.tokenizer import SPECIAL_TOKENS
from electra.errors import ElectraError
from electra.objectives.draws import mix
from electra.recipes.bench_huggingface import CarefulGlue, HuggingFaceStep, TypicalGlue
from electra.recipes.flops import forward_flops
from electra.recipes.hardware import device_name, matrix_peak
from electra.recipes.profile import Part, profile
from electra.recipes.speed import TOKENIZER, JointStep

Against = Literal["hf", "none"]
Update = Callable[[Tensor], None]  # takes ids (B, L) and changes the weights

WARM_UP = 2  # updates after the first that are not timed
REPETITION = 0.2  # seconds at least, so that the clock and the wait for a GPU do not count
LEAST_REPETITIONS = 3


@dataclass(frozen=True)
class Row:
    """What was measured of one variant."""

    variant: str
    size: str
    batch: int
    seq: int
    ms: float  # one update: the median of the repetitions
    ms_low: float  # the quartiles
    ms_high: float
    tokens_s: float
    mfu: float | None  # share of the GPU's measured matrix peak
    memory_gib: float | None  # peak on the GPU
    first_step_s: float  # from nothing to the end of the first update, compilation included
    ratio: float  # how many times as long as electra's step
    device: str


@dataclass(frozen=True)
class Bench:
    """What was measured of a size and a batch."""

    rows: list[Row]
    parts: list[Part]  # of electra's step, where a profile was asked for


class Trial:
    """A variant at work: built, warmed up, then timed again and again."""

    def __init__(self, build: Callable[[], Update], ids: Tensor) -> None:
        self.ids, self.times = ids, list[float]()
        before = torch.cuda.memory_allocated(ids.device) if ids.is_cuda else 0  # by the variants that wait
        began = time.perf_counter()
        self.update = build()
        self._run(1)
        self.first_step = time.perf_counter() - began
        self._run(WARM_UP - 1)
        if ids.is_cuda:
            torch.cuda.reset_peak_memory_stats(ids.device)
        once = self._run(1)
        self.memory = torch.cuda.max_memory_allocated(ids.device) - before if ids.is_cuda else None
        self.count = math.ceil(REPETITION / once)

    def repeat(self) -> None:
        """Time one repetition."""
        self.times.append(self._run(self.count) / self.count)

    def _run(self, count: int) -> float:
        """Give the seconds that some updates take."""
        began = time.perf_counter()
        for _ in range(count):
            self.update(self.ids)
        if self.ids.is_cuda:
            torch.cuda.synchronize(self.ids.device)
        return time.perf_counter() - began


def bench(
    size: str,
    batch: int,
    length: int,
    *,
    seconds: float,
    against: Against,
    device: torch.device,
    profiled: bool = False,
    say: Callable[[str], None] = lambda line: None,
) -> Bench:
    """Time the joint step of a preset on random ids for about `seconds`; take ours apart if asked to."""
    longest = max(length, load_config(size).model.max_length)
    config = load_config(size, [f"train.batch_size={batch}", f"train.length={length}", f"model.max_length={longest}"])
    torch.manual_seed(mix(config.seed))
    ids = torch.randint(len(SPECIAL_TOKENS), config.model.vocab_size, (batch, length), device=device)
    trials = {}
    try:
        for name, build in _variants(config, device, against).items():
            say(f"{size} {batch} x {length}: warming up {name}")
            trials[name] = Trial(build, ids)
        say(f"{size} {batch} x {length}: timing for {seconds:g} seconds")
        take_turns(list(trials.values()), seconds)
    except torch.OutOfMemoryError:
        raise ElectraError(f"{size} at {batch} x {length} does not fit in the GPU's memory; lower --batch") from None
    ours = trials["electra"].update
    assert isinstance(ours, JointStep)
    return Bench(_rows(trials, config, size), profile(ours, ids) if profiled else [])


def _variants(config: PretrainConfig, device: torch.device, against: Against) -> dict[str, Callable[[], Update]]:
    """Say how each variant is built; a careful user compiles for a GPU."""
    variants: dict[str, Callable[[], Update]] = {"electra": lambda: JointStep(config, device)}
    if against == "hf":
        mask_id, compiled = TOKENIZER.mask_id, device.type == "cuda"
        variants["hf_typical"] = lambda: HuggingFaceStep(TypicalGlue(config, mask_id), config, device, compiled=False)
        variants["hf_careful"] = lambda: HuggingFaceStep(CarefulGlue(config, mask_id), config, device, compiled)
    return variants


def take_turns(trials: Sequence[Trial], seconds: float) -> None:
    """Let each repeat once, then each again, until the time is over."""
    end = time.perf_counter() + seconds
    while len(trials[0].times) < LEAST_REPETITIONS or time.perf_counter() < end:
        for trial in trials:
            trial.repeat()


def _rows(trials: dict[str, Trial], config: PretrainConfig, size: str) -> list[Row]:
    batch, length = config.train.batch_size, config.train.length
    device = trials["electra"].ids.device
    peak = matrix_peak(device)
    _, forward = forward_flops(config.model, config.objective, length)  # one sequence, matrix products alone
    ours = statistics.median(trials["electra"].times)
    rows = []
    for name, trial in trials.items():
        low, median, high = statistics.quantiles(trial.times, n=4, method="inclusive")
        rows.append(
            Row(
                variant=name,
                size=size,
                batch=batch,
                seq=length,
                ms=round(1000 * median, 3),
                ms_low=round(1000 * low, 3),
                ms_high=round(1000 * high, 3),
                tokens_s=round(batch * length / median, 1),
                mfu=round(3 * forward * batch / median / peak, 4) if peak else None,
                memory_gib=None if trial.memory is None else round(trial.memory / 2**30, 3),
                first_step_s=round(trial.first_step, 3),
                ratio=round(median / ours, 3),
                device=device_name(device),
            )
        )
    return rows
