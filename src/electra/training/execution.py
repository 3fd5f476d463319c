"""How updates run on a device: plain, compiled or fast."""

from typing import Literal

import torch

from electra.config.schema import TrainConfig
from electra.errors import ConfigError
from electra.model.precision import in_bf16


def execution(config: TrainConfig, device: torch.device) -> Literal["plain", "compiled", "fast"]:
    """Return how updates run: by default fast on a GPU that computes in bf16, plain elsewhere."""
    on_gpu, bf16 = device.type == "cuda", in_bf16(config, device)
    if config.execution == "auto":
        return "fast" if on_gpu and bf16 else "plain"
    if config.execution == "fast" and not on_gpu:
        raise ConfigError("train.execution=fast needs an NVIDIA GPU; drop it, or set train.execution=plain")
    if config.execution == "fast" and not bf16:
        raise ConfigError("train.execution=fast computes in bf16; for float32 set train.execution=plain or compiled")
    return config.execution
