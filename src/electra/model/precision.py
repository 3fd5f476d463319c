"""Where and in which precision networks compute: float32, or bf16 where a GPU makes that worth while."""

from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from electra.config.schema import Precision
from electra.errors import ConfigError
from electra.model.kernels import has_bf16

Module = TypeVar("Module", bound=nn.Module)


class HasPrecision(Protocol):
    """A config, or whatever else says in which precision to compute."""

    @property
    def precision(self) -> Precision:
        """Give the wanted precision."""


def find_device(name: str | torch.device) -> torch.device:
    """Give the device of a name; `auto` is a GPU where there is one."""
    name = str(name)
    if name.partition(":")[0] not in ("auto", "cpu", "cuda"):
        raise ConfigError(f"no device {name!r}; say auto, cpu, cuda or cuda:N")
    there = torch.cuda.is_available()
    if name.startswith("cuda") and not there:
        raise ConfigError(f"device={name}, but PyTorch finds no GPU here; leave it out, or say device=cpu")
    return torch.device(("cuda" if there else "cpu") if name == "auto" else name)


def in_bf16(config: HasPrecision, device: torch.device) -> bool:
    """Say whether the forward pass computes in bf16."""
    return config.precision == "bf16" or (config.precision == "auto" and has_bf16(device))


def autocast(config: HasPrecision, device: torch.device) -> AbstractContextManager[Any]:
    """Give the context in which the forward pass has the wanted precision."""
    return torch.autocast(device.type, torch.bfloat16) if in_bf16(config, device) else nullcontext()


def as_used(network: Module, config: HasPrecision) -> Module:
    """Give a network for use without training: itself, or a copy with the bf16 weights that the kernels serve.

    The network's own weights stay as they are, so that nothing rounded is ever trained or written.
    """
    device = next(network.parameters()).device
    return deepcopy(network).to(torch.bfloat16) if in_bf16(config, device) else network
