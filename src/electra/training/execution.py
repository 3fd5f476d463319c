"""How a step runs on a device: plain, compiled or fast."""

from typing import Literal

import torch

from electra.config.schema import TrainConfig
from electra.errors import ConfigError
from electra.model.precision import in_bf16


def execution(config: TrainConfig, device: torch.device) -> Literal["plain", "compiled", "fast"]:
    """Choose how steps are run: fast where there is a GPU for it; fast without one is refused."""
    on_gpu, bf16 = device.type == "cuda", in_bf16(config, device)
    if config.execution == "auto":
        return "fast" if on_gpu and bf16 else "plain"
    if config.execution == "fast" and not on_gpu:
        raise ConfigError("train.execution=fast needs a GPU; leave it out, or say train.execution=plain")
    if config.execution == "fast" and not bf16:
        raise ConfigError("train.execution=fast computes in bf16; for float32 say train.execution=plain or compiled")
    return config.execution
