"""One update of the weights: forward and backward over each micro-batch, then the optimizer."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from electra.config.schema import TrainConfig
from electra.errors import ConfigError
from electra.model.precision import autocast, in_bf16
from electra.training.capture import Captured
from electra.training.optim import build_optimizer
from electra.training.processes import Processes

Inputs = tuple[Any, ...]  # arguments of the module
Network = Callable[..., Any]  # the module, as it is to be called


class HasLoss(Protocol):
    """What a forward pass returns. For several processes it needs `terms` too: weight, total and count of each."""

    @property
    def loss(self) -> Tensor:
        """The loss, a scalar."""


class Learner(Protocol):
    """A module that can be trained: it maps a micro-batch to a result with a loss."""

    recordable: bool  # whether a CUDA graph can record forward and backward pass

    def rate(self, name: str) -> float:
        """Return the multiple of the learning rate for a parameter."""

    def share(self, *inputs: Any) -> float | Tensor:
        """Return how much a micro-batch counts among those of its update."""


Result = TypeVar("Result", bound=HasLoss)


class Update(Generic[Result]):
    """Updates the weights of a module that returns a loss.

    Plain: PyTorch's operations one by one. Compiled: the same through torch.compile. Fast: the forward pass uses bf16
    copies of the weights, for which there are kernels, and in a single process each pass is a CUDA graph.
    """

    def __init__(self, module: Any, config: TrainConfig, processes: Processes) -> None:
        how = execution(config, processes.device)
        self.module: Learner = module
        self.config, self.processes = config, processes
        self.optimizer = build_optimizer(module, config, torch.bfloat16 if how == "fast" else None, module.rate)
        self.weights = self.optimizer.weights
        self._network: Network = torch.compile(self.weights.call) if how == "compiled" else self.weights.call
        self._first: Callable[..., tuple[Result, Tensor]] = partial(self._forward_and_backward, True)
        self._next: Callable[..., tuple[Result, Tensor]] = partial(self._forward_and_backward, False)
        self._step: Callable[[], None] = self.optimizer.step
        if how == "fast" and processes.world_size == 1:
            if self.module.recordable:
                pool, changes = torch.cuda.graph_pool_handle(), [self.weights.gradient, self.optimizer.parts]
                self._first = Captured(self._first, changes, pool)
                self._next = Captured(self._next, changes, pool)
            self._step = Captured(self.optimizer.step, changes=self.optimizer.changes())

    def __call__(self, micro_batches: Iterable[Inputs], rate: float) -> tuple[Result, Tensor]:
        """Update with the weighted mean gradient of some micro-batches; return result and loss of the last one."""
        for number, inputs in enumerate(micro_batches):
            result = (self._next if number else self._first)(*inputs)
        self.processes.add_up(self.weights.gradient)
        self.optimizer.rate.fill_(rate)
        self._step()
        return result

    def evaluate(self, *inputs: Any) -> Result:
        """Call the module without an update."""
        with autocast(self.config, self.processes.device):
            result: Result = self.weights.call(*inputs)
        return result

    def _forward_and_backward(self, first: bool, *inputs: Any) -> tuple[Result, Tensor]:
        with autocast(self.config, self.processes.device):
            result: Result = self._network(*inputs)
            loss = average_loss(result, self.processes)
            share = self.processes.mean(self.module.share(*inputs))
        self.weights.take_gradient(loss * share, first)
        self.optimizer.count(share * self.processes.world_size, first)
        return result, loss


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


def average_loss(result: Any, processes: Processes) -> Tensor:
    """Return the loss whose mean over the processes is that of one process with all their batches.

    A process with fewer tokens that count weighs less: every term is divided by its mean count over the processes.
    """
    if processes.world_size == 1:
        loss: Tensor = result.loss
        return loss
    counts = processes.mean(torch.stack([term.count for term in result.terms]))
    terms = [term.weight * (term.total / count) for term, count in zip(result.terms, counts, strict=True)]
    return torch.stack(terms).sum()
