"""How a step runs on a device: in which precision, and plain, compiled or fast."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal, Protocol

import torch

from electra.config.schema import TrainConfig


class HasPrecision(Protocol):
    """A config that says in which precision to compute."""

    @property
    def precision(self) -> Literal["auto", "bf16", "float32"]:
        """Give the wanted precision."""


def autocast(config: HasPrecision, device: torch.device) -> AbstractContextManager[Any]:
    """Give the context in which the forward pass has the wanted precision."""
    return torch.autocast(device.type, torch.bfloat16) if in_bf16(config, device) else nullcontext()


def in_bf16(config: HasPrecision, device: torch.device) -> bool:
    """Say whether the forward pass computes in bf16."""
    return config.precision == "bf16" or (config.precision == "auto" and device.type == "cuda")


def execution(config: TrainConfig, device: torch.device) -> Literal["plain", "compiled", "fast"]:
    """Choose how steps are run: fast where there is a GPU for it."""
    if config.execution != "auto":
        return config.execution
    return "fast" if device.type == "cuda" and in_bf16(config, device) else "plain"
