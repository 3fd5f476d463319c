"""Runs that are killed: `launch` starts it with the `arguments` of a run and `how`, by `kills`, `step` or `forward`."""

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from electra.config.load import load_config
from electra.objectives.base import Objective
from electra.recipes.pretrain import pretrain


def attempt(config, step: int | None = None, forward: int | None = None) -> None:
    """Train in this process, and die at a step or a forward pass."""
    forwards = 0

    def die_at_forward(module, inputs) -> None:
        nonlocal forwards
        forwards += isinstance(module, Objective) and module.training
        if forwards == forward:
            die()

    def die_at_step(record) -> None:
        if record["step"] == step:
            die()

    def die() -> None:
        while newest(Path(config.out) / "checkpoints") <= "step-00000000":  # it is written in the background
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    torch.nn.modules.module.register_module_forward_pre_hook(die_at_forward)
    pretrain(config, [die_at_step])


def newest(folder: Path) -> str:
    return max((path.name for path in folder.glob("step-*")), default="")


def kill_often(config, kills: int) -> None:
    """Train in processes that are killed at random moments, each after it has written a checkpoint; then finish."""
    checkpoints = Path(config.out) / "checkpoints"
    moments = random.Random(1)
    for _ in range(kills):
        before = newest(checkpoints)
        child = os.fork()
        if not child:
            attempt(config)
            os._exit(9)  # it ended before it was killed: the run is too short
        while newest(checkpoints) == before:
            if os.waitpid(child, os.WNOHANG) != (0, 0):
                sys.exit(f"a run could not go on from {before}")
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1] != signal.SIGKILL:
            sys.exit("a run ended before it was killed")
    attempt(config)


if __name__ == "__main__":
    torch.set_num_threads(1)
    preset, *overrides = arguments  # noqa: F821
    (kill_often if "kills" in how else attempt)(load_config(preset, overrides), **how)  # noqa: F821
