"""One update of the weights: a forward and a backward pass over each micro-batch, then the optimizer."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from electra.config.schema import TrainConfig
from electra.model.precision import autocast
from electra.training.capture import Captured
from electra.training.execution import execution
from electra.training.optim import Factor, build_optimizer
from electra.training.processes import Processes

Inputs = tuple[Any, ...]  # what the module is called with
Network = Callable[..., Any]  # the module, as it is to be called
Weigh = Callable[..., float | Tensor]  # from inputs to how much they count among the others of their update


class HasLoss(Protocol):
    """What a forward pass gives: at least a loss."""

    @property
    def loss(self) -> Tensor:
        """Give the loss, a scalar."""


Result = TypeVar("Result", bound=HasLoss)


class Update(Generic[Result]):
    """Updates the weights of a module that gives a loss, as a config says.

    Plain: PyTorch's operations one by one. Compiled: the same through torch.compile. Fast: the forward pass sees bf16
    copies of the weights, which the kernels want, and where one process trains alone, each pass is a CUDA graph.
    """

    def __init__(
        self,
        module: nn.Module,
        config: TrainConfig,
        processes: Processes,
        factor: Factor = lambda name: 1.0,
        weigh: Weigh = lambda *inputs: 1.0,
    ) -> None:
        how = execution(config, processes.device)
        self.config, self.processes, self._weigh = config, processes, weigh
        self.optimizer = build_optimizer(module, config, torch.bfloat16 if how == "fast" else None, factor)
        self.weights = self.optimizer.weights
        self._network: Network = torch.compile(self.weights.call) if how == "compiled" else self.weights.call
        self._first: Callable[..., Result] = partial(self._forward_and_backward, True)
        self._next: Callable[..., Result] = partial(self._forward_and_backward, False)
        self._step: Callable[[], None] = self.optimizer.step
        if how == "fast" and processes.world_size == 1:
            pool, changes = torch.cuda.graph_pool_handle(), [self.weights.gradient, self.optimizer.parts]
            self._first = Captured(self._first, changes, pool)
            self._next = Captured(self._next, changes, pool)
            self._step = Captured(self.optimizer.step, changes=self.optimizer.changes())

    def __call__(self, micro_batches: Iterable[Inputs], rate: float) -> Result:
        """Update with the mean gradient over some micro-batches, weighed; gives what came of the last one."""
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

    def _forward_and_backward(self, first: bool, *inputs: Any) -> Result:
        with autocast(self.config, self.processes.device):
            result: Result = self._network(*inputs)
            weight = self._weigh(*inputs)
        self.weights.take_gradient(result.loss * weight, first)
        self.optimizer.count(weight * self.processes.world_size, first)
        return result
