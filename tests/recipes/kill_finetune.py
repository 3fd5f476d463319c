"""A fine-tuning that dies: `python kill_finetune.py SEED STEP KEY=VALUE...` kills itself at that step of that seed."""

import os
import signal
import sys

import torch

import electra


def main(seed: str, step: str, *keys: str) -> None:
    torch.set_num_threads(1)

    def die(record) -> None:
        if (record["seed"], record["step"]) == (int(seed), int(step)):
            os.kill(os.getpid(), signal.SIGKILL)

    electra.finetune(electra.load_finetune_config("glue", list(keys)), [die])


if __name__ == "__main__":
    main(*sys.argv[1:])
