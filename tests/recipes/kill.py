"""Runs that are killed: `python kill.py KILLS SEED PRESET KEY=VALUE...` kills a run that often, then lets it finish.

Each attempt is a process of its own, killed at a random moment after it has written a checkpoint. KILLS 0 kills no
attempt from outside; the environment's KILL_AT_STEP or KILL_AT_FORWARD makes the attempt kill itself there.
"""

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


def attempt(config) -> None:
    """Train in this process, and die where the environment says so."""
    forwards = 0

    def die_at_forward(module, inputs) -> None:
        nonlocal forwards
        forwards += isinstance(module, Objective) and module.training
        if forwards == int(os.environ.get("KILL_AT_FORWARD", -1)):
            die()

    def die_at_step(record) -> None:
        if record["step"] == int(os.environ.get("KILL_AT_STEP", -1)):
            die()

    def die() -> None:
        while newest(Path(config.out) / "checkpoints") <= "step-00000000":  # it is written in the background
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    torch.nn.modules.module.register_module_forward_pre_hook(die_at_forward)
    pretrain(config, [die_at_step])


def newest(folder: Path) -> str:
    return max((path.name for path in folder.glob("step-*")), default="")


def main(kills: int, seed: int, preset: str, *overrides: str) -> None:
    torch.set_num_threads(1)
    config = load_config(preset, list(overrides))
    checkpoints = Path(config.out) / "checkpoints"
    moments = random.Random(seed)
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
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
