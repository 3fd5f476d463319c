"""How fast this machine trains a model: measured on real steps, not looked up."""

import time
from dataclasses import dataclass

import torch
from torch import Tensor

from electra.config.schema import PretrainConfig
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece
from electra.objectives.base import Step
from electra.objectives.build import build_objective
from electra.objectives.draws import draw
from electra.training.processes import Processes
from electra.training.update import Update

TOKENIZER = wordpiece(SPECIAL_TOKENS)  # where the special ids alone are asked for
SECONDS = 2.0  # of steps that are timed, after one that is not
STEPS_AT_ONCE = {"cpu": 1, "cuda": 5}  # a GPU's are queued, and would go on long after the time is over
CPU_MICRO_BATCH = 8  # sequences at a time, which bounds the memory and the time of the measurement


@dataclass(frozen=True)
class Speed:
    """What a model's training manages here."""

    tokens_per_second: float
    micro_batch_size: int  # sequences that fit the memory at a time


class JointStep:
    """One update as `electra pretrain` makes it, on given ids."""

    def __init__(self, config: PretrainConfig, device: torch.device) -> None:
        self.config, self.device, self.number = config, device, 0
        counts = torch.ones(config.model.vocab_size)  # the time does not depend on which token is drawn
        tokenizer = _invented(config.model.vocab_size)
        objective = build_objective(config.objective, config.model, tokenizer, counts).to(device)
        self.update = Update[Step](objective, config.train, Processes(0, 1, device))

    def __call__(self, ids: Tensor) -> None:
        """Update the weights with a batch of ids (B, L)."""
        draws = draw(self.config.seed, self.number, *ids.shape, device=self.device)
        self.update([(Batch(ids, None, None), draws)], self.config.train.learning_rate)
        self.number += 1


def measure_speed(config: PretrainConfig, device: torch.device) -> Speed:
    """Time joint steps of a config on invented text; a batch that does not fit a GPU is halved until it does."""
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
    """Time joint steps."""
    step = JointStep(config, device)
    ids = torch.randint(len(SPECIAL_TOKENS), config.model.vocab_size, (rows, config.train.length), device=device)
    _run(step, ids, 1)  # the first one also sets things up
    began = time.perf_counter()
    while step.number < 2 or time.perf_counter() - began < SECONDS:
        _run(step, ids, STEPS_AT_ONCE[device.type])
    return (step.number - 1) * ids.numel() / (time.perf_counter() - began)


def _invented(vocab_size: int) -> Tokenizer:
    """Make a vocabulary of that size, of words that mean nothing."""
    return wordpiece([*SPECIAL_TOKENS, *map(str, range(vocab_size - len(SPECIAL_TOKENS)))])


def _run(step: JointStep, ids: Tensor, steps: int) -> None:
    for _ in range(steps):
        step(ids)
    if ids.is_cuda:
        torch.cuda.synchronize(ids.device)
