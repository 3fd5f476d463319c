"""One update of the weights: a forward and a backward pass over each micro-batch, then the optimizer."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from electra.config.schema import TrainConfig
from electra.errors import ConfigError
from electra.training.capture import Captured
from electra.training.execution import execution
from electra.training.optim import Factor, build_optimizer
from electra.training.processes import Processes

Input = TypeVar("Input")
Network = Callable[..., Any]  # the module, as the forward pass is to call it


class HasLoss(Protocol):
    """What a forward pass gives: at least a loss."""

    @property
    def loss(self) -> Tensor:
        """Give the loss, a scalar."""


Result = TypeVar("Result", bound=HasLoss)


class Update(Generic[Input, Result]):
    """Updates a module's weights as a config says.

    Plain: PyTorch's operations one by one. Compiled: the same through torch.compile. Fast: the forward pass sees bf16
    copies of the weights, which the kernels want, and where one process trains alone, each pass is a CUDA graph.
    """

    def __init__(
        self,
        module: nn.Module,
        forward: Callable[[Network, Input], Result],
        config: TrainConfig,
        processes: Processes,
        factor: Factor = lambda name: 1.0,
    ) -> None:
        how, on_gpu = execution(config, processes.device), processes.device.type == "cuda"
        if how == "fast" and not on_gpu:
            raise ConfigError("train.execution=fast needs a GPU; leave it out, or say train.execution=plain")
        self.processes = processes
        self.optimizer = build_optimizer(module, config, torch.bfloat16 if how == "fast" else None, factor)
        self.weights = self.optimizer.weights
        self._forward = forward
        self._network: Network = torch.compile(self.weights.call) if how == "compiled" else self.weights.call
        self._pass: Callable[[Input], Result] = self._forward_and_backward
        self._step: Callable[[], None] = self.optimizer.step
        if how == "fast" and processes.world_size == 1:
            self._pass = Captured(self._forward_and_backward, changes=[self.weights.gradient])
            self._step = Captured(self.optimizer.step, changes=self.optimizer.changes())

    def __call__(self, inputs: Iterable[Input], rate: float) -> Result:
        """Update with the mean gradient over some micro-batches; gives what came of the last one."""
        parts = 0
        for part in inputs:
            result = self._pass(part)
            parts += 1
        self.processes.add_up(self.weights.gradient)
        self.optimizer.prepare(rate, parts * self.processes.world_size)
        self._step()
        return result

    def _forward_and_backward(self, part: Input) -> Result:
        result = self._forward(self._network, part)
        self.weights.add_gradient(result.loss)
        return result
