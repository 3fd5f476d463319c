"""A fine-tuning that kills itself at a `step` of a `seed`: `launch` starts it with the `keys` of its config."""

import os
import signal

import torch

import electra


def die(record) -> None:
    if (record["seed"], record["step"]) == (seed, step):  # noqa: F821
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    torch.set_num_threads(1)
    electra.finetune(electra.load_finetune_config("glue", keys), [die])  # noqa: F821
