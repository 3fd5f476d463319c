"""Weights, gradients and optimizer state divided among the processes of a machine: for models too large for one GPU.

Each weight is a tensor of its own, of which a process has some rows (PyTorch's FSDP2). Before a block of an encoder
computes, its weights are collected from all processes, and dropped afterwards; so are its gradients, once they are
summed. Embeddings and heads are complete from the start of a forward pass to the end of its backward pass.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from electra.config.schema import TrainConfig
from electra.model.body import Body
from electra.training.optim import Optimizer, Rate, grouping, norm
from electra.training.processes import Processes


class ShardedWeights:
    """A module whose weights are divided; the forward pass uses a `working` type, where it differs from theirs."""

    def __init__(self, module: nn.Module, working: torch.dtype | None, processes: Processes) -> None:
        self.module: Any = module
        self.processes = processes
        precision = MixedPrecisionPolicy(working, reduce_dtype=torch.float32, cast_forward_inputs=False)
        divide = partial(fully_shard, mesh=_mesh(processes), mp_policy=precision)
        for block in _blocks(module):
            if working:
                block.register_forward_pre_hook(partial(_enter, working))
            divide(block)
        divide(module)
        for part in _divided(module):  # sums instead of means, which gloo cannot compute
            part.set_gradient_divide_factor(1.0)
            part.set_force_sum_reduction_for_comms(True)
        self.trained = {name: own for name, own in module.named_parameters() if own.requires_grad}

    def call(self, *inputs: Any) -> Any:
        """Call the module."""
        result = self.module(*inputs)
        if not torch.is_grad_enabled():  # no backward pass will drop what is complete
            self.module.reshard()
        return result

    def take_gradient(self, loss: Tensor, first: bool) -> None:
        """Compute the gradient of a loss and sum it over the processes; the first of an update overwrites the last."""
        for own in self.trained.values() if first else ():
            own.grad = None
        loss.backward()  # type: ignore[no-untyped-call]

    def complete(self) -> None:
        """Make the first process's module a plain one with all weights, on the CPU; it cannot be trained further."""
        for owner in self.module.modules():
            for name, own in owner._parameters.items():
                if isinstance(own, DTensor):
                    full = own.full_tensor().detach()
                    owner._parameters[name] = nn.Parameter(full.cpu()) if self.processes.first else own
        if self.processes.first:
            for part in _divided(self.module):
                part._forward_pre_hooks.clear()
                part._forward_hooks.clear()
                part.__class__ = type(part).__bases__[1]  # the one that it had before
            self.module.cpu()  # buffers


class ShardedOptimizer(Optimizer):
    """Updates the rows of every weight that this process has."""

    def __init__(self, weights: ShardedWeights, config: TrainConfig, rate: Rate, processes: Processes) -> None:
        super().__init__(config, processes, processes.device)
        self.own = weights.trained
        group_of = grouping(weights.module, config, rate)
        self.group_of = {name: group_of(name, own) for name, own in self.own.items()}
        self.means = {name: torch.zeros_like(own) for name, own in self.own.items()}
        self.squares = {name: torch.zeros_like(own) for name, own in self.own.items()}

    def tensors(self) -> dict[str, Tensor]:
        means = {f"mean.{name}": tensor for name, tensor in self.means.items()}
        return {"updates": self.updates, **means, **{f"square.{name}": part for name, part in self.squares.items()}}

    def adopt(self, tensors: dict[str, Tensor]) -> None:
        """Do nothing: `tensors` returns the state itself."""

    def fill(self, tensor: Tensor, complete: Tensor) -> None:
        if isinstance(tensor, DTensor):
            here = complete.to(self.processes.device)
            complete = distribute_tensor(here, tensor.device_mesh, tensor.placements, src_data_rank=None)
        tensor.copy_(complete)

    def _gradient_norm(self) -> Tensor:
        square = torch.stack([norm(_gradient(own).flatten()) for own in self.own.values()]).square().sum()
        self.processes.add_up(square)
        machines = self.processes.world_size // self.processes.neighbors  # each has all of it
        return (square / machines).sqrt()

    def _update(self, scale: Tensor, bad: Tensor) -> None:
        for group in dict.fromkeys(self.group_of.values()):
            names = [name for name, own in self.own.items() if self.group_of[name] == group and len(_rows(own))]
            values = [_rows(self.own[name]) for name in names]
            gradients = [_gradient(self.own[name]) for name in names]
            states = ([_rows(state[name]) for name in names] for state in (self.means, self.squares))
            self._adam(group, [values, gradients, *states], scale, bad)


def _mesh(processes: Processes) -> DeviceMesh:
    """Return the processes by machine: each machine divides the weights, and all have the same."""
    machines, kind = processes.world_size // processes.neighbors, processes.device.type
    if machines == 1:
        return init_device_mesh(kind, (processes.neighbors,))
    return init_device_mesh(kind, (machines, processes.neighbors), mesh_dim_names=("machine", "place"))


def _blocks(module: nn.Module) -> Iterator[nn.Module]:
    """Yield the blocks of all encoders in a module, those that two share only once."""
    for body in module.modules():
        if isinstance(body, Body):
            yield from body.layers


def _divided(module: nn.Module) -> list[Any]:
    """Return the modules whose weights are collected when they compute: blocks, and the one for all the rest."""
    return [part for part in module.modules() if isinstance(part, FSDPModule)]


def _enter(working: torch.dtype, block: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert hidden states to the type of a block; rotations that it is given too are more precise."""
    hidden, *others = inputs
    return hidden.to(working), *others


def _rows(tensor: Tensor) -> Tensor:
    """Return the rows of a divided tensor that this process has."""
    assert isinstance(tensor, DTensor)
    return tensor.to_local()


def _gradient(own: nn.Parameter) -> Tensor:
    """Return the gradient of the rows that this process has; zeros for a weight that the loss does not depend on."""
    return torch.zeros_like(_rows(own)) if own.grad is None else _rows(own.grad)
