"""How a step runs on a device: in which precision, and plain, compiled or fast."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch

from electra.config.schema import TrainConfig


def autocast(config: TrainConfig, device: torch.device) -> AbstractContextManager[Any]:
    """Give the context in which the forward pass has the wanted precision."""
    return torch.autocast(device.type, torch.bfloat16) if in_bf16(config, device) else nullcontext()


def in_bf16(config: TrainConfig, device: torch.device) -> bool:
    """Say whether the forward pass computes in bf16."""
    return config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")


def execution(config: TrainConfig, device: torch.device) -> Literal["plain", "compiled", "fast"]:
    """Choose how steps are run: fast where there is a GPU for it."""
    if config.execution != "auto":
        return config.execution
    return "fast" if device.type == "cuda" and in_bf16(config, device) else "plain"
