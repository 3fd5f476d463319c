"""How a step runs on a device: plain, compiled or fast."""

from typing import Literal

import torch

from electra.config.schema import TrainConfig
from electra.model.precision import in_bf16


def execution(config: TrainConfig, device: torch.device) -> Literal["plain", "compiled", "fast"]:
    """Choose how steps are run: fast where there is a GPU for it."""
    if config.execution != "auto":
        return config.execution
    return "fast" if device.type == "cuda" and in_bf16(config, device) else "plain"
