"""How fast this machine trains a model, measured on real steps."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from electra.config.schema import PretrainConfig
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.model import ops
from electra.objectives.base import Step
from electra.objectives.build import build_objective
from electra.objectives.draws import draw
from electra.recipes.hardware import synchronize
from electra.training.processes import Processes
from electra.training.update import Update

TOKENIZER = wordpiece(SPECIAL_TOKENS)  # for uses that need only the special tokens
SECONDS = 2.0  # of timed steps, after one that is not
MOST_SECONDS = 8.0  # of one step on a CPU, where large models take seconds for each sequence
STEPS_AT_ONCE = 5  # on a GPU, between two looks at the clock: steps are queued
CPU_MICRO_BATCH = 8  # sequences at a time, to bound memory and time of the measurement


@dataclass(frozen=True)
class Speed:
    """How fast a model trains here."""

    tokens_per_second: float
    micro_batch_size: int  # sequences that fit into memory at a time


class JointStep:
    """One update as `electra pretrain` makes it, on given ids."""

    def __init__(self, config: PretrainConfig, device: torch.device, processes: Processes | None = None) -> None:
        self.config, self.device, self.number = config, device, 0
        counts = torch.ones(config.model.vocab_size)  # the time does not depend on them
        words = map(str, range(config.model.vocab_size - len(SPECIAL_TOKENS)))  # meaningless
        objective = build_objective(config.objective, config.model, wordpiece([*SPECIAL_TOKENS, *words]), counts)
        self.update = Update[Step](objective, config.train, processes or Processes(0, 1, device))

    def operations(self) -> dict[str, str]:
        """Return the implementation of each operation in the step."""
        return dict(ops.table(self.device, self.update.working or torch.float32))

    def __call__(self, ids: Tensor) -> None:
        """Update the weights with a batch of ids (B, L)."""
        draws = draw(self.config.seed, self.number, *ids.shape, device=self.device)
        self.update([(Batch(ids, None, None), draws)], self.config.train.learning_rate)
        self.number += 1


def measure_speed(config: PretrainConfig, device: torch.device) -> Speed:
    """Time joint steps of a config on random ids; a batch that does not fit into GPU memory is halved until it does."""
    micro = config.train.batch_size if device.type == "cuda" else min(CPU_MICRO_BATCH, config.train.batch_size)
    while True:
        try:
            return Speed(_tokens_per_second(config, device, micro), micro)
        except torch.OutOfMemoryError:
            if micro == 1:
                raise
            torch.cuda.empty_cache()
            micro //= 2


def _tokens_per_second(config: PretrainConfig, device: torch.device, rows: int) -> float:
    """Return how many tokens joint steps with so many sequences read per second."""
    step = JointStep(config, device)
    ids = torch.randint(len(SPECIAL_TOKENS), config.model.vocab_size, (rows, config.train.length), device=device)
    began = time.perf_counter()
    _run(step, ids if device.type == "cuda" else ids[:1], 1)  # the first one includes setup
    if device.type != "cuda":
        ids = ids[: max(1, int(MOST_SECONDS / (time.perf_counter() - began)))]
    began = time.perf_counter()
    while step.number < 2 or time.perf_counter() - began < SECONDS:
        _run(step, ids, STEPS_AT_ONCE if device.type == "cuda" else 1)
    return (step.number - 1) * ids.numel() / (time.perf_counter() - began)


def _run(step: JointStep, ids: Tensor, steps: int) -> None:
    for _ in range(steps):
        step(ids)
    synchronize(ids.device)
