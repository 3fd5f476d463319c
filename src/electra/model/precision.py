"""Where and in which precision networks compute: float32, or bf16 on GPUs that support it."""

from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from itertools import chain
from typing import Any, Protocol, TypeVar

import torch
from torch import nn

from electra.config.section import Precision
from electra.errors import ConfigError
from electra.model.kernels import has_bf16

Module = TypeVar("Module", bound=nn.Module)


class HasPrecision(Protocol):
    """A config, or anything else with a precision."""

    @property
    def precision(self) -> Precision:
        """The precision to compute in."""


def find_device(name: str | torch.device) -> torch.device:
    """Return the device of a name; `auto` is an NVIDIA GPU if there is one, else the CPU."""
    name = str(name)
    if name.partition(":")[0] not in ("auto", "cpu", "cuda", "mps"):
        raise ConfigError(f"unknown device {name!r}; use auto, cpu, cuda, cuda:N or mps")
    there = torch.cuda.is_available()
    if name.startswith("cuda") and not there:
        raise ConfigError(f"device={name}, but PyTorch finds no NVIDIA GPU; drop it, or set device=cpu")
    if name.startswith("mps") and not torch.backends.mps.is_available():
        raise ConfigError(f"device={name}, but PyTorch finds no Apple GPU; drop it, or set device=cpu")
    return torch.device(("cuda" if there else "cpu") if name == "auto" else name)


def device_of(network: nn.Module) -> torch.device:
    """Return the device of a network."""
    return next(chain(network.parameters(), network.buffers())).device


def in_bf16(config: HasPrecision, device: torch.device) -> bool:
    """Return whether the forward pass computes in bf16."""
    return config.precision == "bf16" or (config.precision == "auto" and has_bf16(device))


def computing_type(config: HasPrecision, device: torch.device) -> torch.dtype:
    """Return the type of the weights in the forward pass, where there are kernels for it."""
    return torch.bfloat16 if in_bf16(config, device) else torch.float32


def autocast(config: HasPrecision, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context in which the forward pass has the wanted precision."""
    return torch.autocast(device.type, torch.bfloat16) if in_bf16(config, device) else nullcontext()


def as_used(network: Module, config: HasPrecision) -> Module:
    """Return a copy of a network for inference: with bf16 weights, for which there are kernels, or float32 by columns.

    The network's own weights are not changed, so that rounded weights are never trained or written.
    """
    if in_bf16(config, device_of(network)):
        return deepcopy(network).to(torch.bfloat16)
    return _by_columns(network) if device_of(network).type == "cpu" else network


def _by_columns(network: Module) -> Module:
    """Return a copy with matrices in the order in which a CPU reads them; it shares all other weights.

    Products with few rows are up to three times as fast, since they do not transpose the matrix each time.
    """
    copy = deepcopy(network, {id(parameter): parameter for parameter in network.parameters()})
    for module in copy.modules():
        if isinstance(module, nn.Linear):
            module.weight = nn.Parameter(module.weight.detach().t().contiguous().t(), requires_grad=False)
    return copy
