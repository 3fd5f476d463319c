"""How fast this machine trains a model: measured on real steps, not looked up."""

import time
from dataclasses import dataclass

import torch

from electra.config.schema import PretrainConfig
from electra.data.batch import Batch
from electra.data.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.objectives.build import build_objective
from electra.objectives.draws import draw
from electra.training.execution import autocast
from electra.training.optim import build_optimizer

SECONDS = 2.0  # of steps that are timed, after one that is not
CPU_MICRO_BATCH = 8  # sequences at a time, which bounds the memory and the time of the measurement


@dataclass(frozen=True)
class Speed:
    """What a model's training manages here."""

    tokens_per_second: float
    micro_batch_size: int  # sequences that fit the memory at a time


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
    """Time forward, backward and update; not compiled, so that a GPU will do rather better in the run."""
    length, words = config.train.length, config.model.vocab_size - len(SPECIAL_TOKENS)
    tokenizer = wordpiece([*SPECIAL_TOKENS, *(f"w{number}" for number in range(words))])
    objective = build_objective(config.objective, config.model, tokenizer).to(device)
    optimizer = build_optimizer(objective, config.train)
    ids = torch.randint(len(SPECIAL_TOKENS), config.model.vocab_size, (rows, length), device=device)
    batch = Batch(ids, None, torch.zeros_like(ids))
    taken, began = -1, time.perf_counter()
    while taken < 1 or time.perf_counter() - began < SECONDS:
        with autocast(config.train, device):
            loss = objective(batch, draw(config.seed, taken + 1, rows, length, device=device)).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        loss.item()  # waits for the device
        taken += 1
        if taken == 0:  # the first step also sets things up
            began = time.perf_counter()
    return taken * rows * length / (time.perf_counter() - began)
