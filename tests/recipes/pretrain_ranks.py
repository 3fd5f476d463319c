"""Pre-train as one of several processes, and stop at a step if asked to: `launch` starts it."""

import os
import signal
import sys

import torch

from electra.config.load import load_config
from electra.errors import Stopped
from electra.recipes.pretrain import pretrain

if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)  # noqa: F821
    torch.set_num_threads(1)
    preset, *overrides = arguments  # noqa: F821
    until = globals().get("stop_at")
    try:
        pretrain(load_config(preset, overrides), [lambda record: record["step"] == until and signal.raise_signal(15)])
    except Stopped:
        sys.exit(0 if until else 1)
