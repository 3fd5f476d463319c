"""Measure what a process group costs: the same step without one, and with gradients summed during the backward pass.

torchrun --nproc-per-node 1 runs/bench_overlap.py [--size base] [--batch 128] [--length 512] [--repetitions 40]
  [train.optimizer=muon ...]

With one process nothing is sent, but everything else is done: buckets, hooks, and NCCL inside the CUDA graphs. With
more, the batch is that of each process, and the difference is the time of communication that is not hidden.
"""

import argparse
import json
import statistics
from functools import partial
from typing import Any

import torch

from electra.config.load import load_config
from electra.data.tokens.tokenizer import SPECIAL_TOKENS
from electra.recipes.bench.timing import Trial
from electra.recipes.hardware import device_name
from electra.recipes.speed import JointStep
from electra.training.processes import Processes, joined

REPETITION = 5  # steps; every process makes the same number


def main() -> None:
    """Print the times of both variants, which take turns, and the ratio of their medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="base")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--device", default="auto")
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    shape = [f"train.batch_size={asked.batch}", f"train.length={asked.length}", f"model.max_length={asked.length}"]
    config = load_config(asked.size, [*shape, *asked.overrides])
    with joined(asked.device) as processes:
        device = processes.device
        ids = torch.randint(len(SPECIAL_TOKENS), config.model.vocab_size, (asked.batch, asked.length), device=device)
        groups = {"without a group": Processes(0, 1, device), "with a group": processes}
        steps = {name: partial(JointStep, config, device, group) for name, group in groups.items()}
        trials = {name: Trial(step, ids, device) for name, step in steps.items()}
        for trial in trials.values():
            trial.count = REPETITION
        for _ in range(asked.repetitions):
            for trial in trials.values():
                trial.repeat()
        for trial in trials.values():
            step: Any = trial.work
            step.update.release()
        alone, grouped = (statistics.quantiles(trial.times, n=4, method="inclusive") for trial in trials.values())
        found = {
            "size": asked.size,
            "batch": asked.batch,
            "length": asked.length,
            "optimizer": config.train.optimizer,
            "processes": processes.world_size,
            "ms_without_group": [round(1000 * time, 3) for time in alone],
            "ms_with_group": [round(1000 * time, 3) for time in grouped],
            "ratio": round(grouped[1] / alone[1], 4),
            "device": device_name(device),
        }
        if processes.first:
            print(json.dumps(found))


if __name__ == "__main__":
    main()
