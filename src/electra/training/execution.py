"""How a step runs on a device: in which precision, and compiled or not."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from electra.config.schema import TrainConfig


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[Any]:
    """Give the context in which the forward pass has the wanted precision."""
    if config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda"):
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def is_compiled(config: TrainConfig, device: torch.device) -> bool:
    """Say whether the step goes through torch.compile."""
    return config.compile == "on" or (config.compile == "auto" and device.type == "cuda")
