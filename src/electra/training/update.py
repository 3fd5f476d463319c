"""One update of the weights: forward and backward over each micro-batch, then the optimizer."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import torch
from torch import Tensor

from electra.config.schema import TrainConfig
from electra.errors import ConfigError
from electra.model.precision import autocast, in_bf16
from electra.training.buckets import Buckets
from electra.training.capture import Captured
from electra.training.optim import Optimizer, build_optimizer
from electra.training.pace import Pace
from electra.training.processes import Processes
from electra.training.weights import Weights

if TYPE_CHECKING:
    from electra.training.sharded import ShardedWeights

Inputs = tuple[Any, ...]  # arguments of the module
Network = Callable[..., Any]  # the module, as it is to be called


class MicroBatches(Protocol):
    """The inputs of an update; how many is known before they are read."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[Inputs]: ...


class HasLoss(Protocol):
    """What a forward pass returns. For several processes it needs `terms` too: weight, total and count of each."""

    @property
    def loss(self) -> Tensor:
        """The loss, a scalar."""


class Learner(Protocol):
    """A module that can be trained: it maps a micro-batch to a result with a loss."""

    def recordable(self, *inputs: Any) -> bool:
        """Return whether a CUDA graph can record both passes: shapes are static, and the host reads nothing back."""

    def rate(self, name: str) -> float:
        """Return the multiple of the learning rate for a parameter."""

    def share(self, *inputs: Any) -> float | Tensor:
        """Return how much a micro-batch counts among those of its update."""


Result = TypeVar("Result", bound=HasLoss)


class Update(Generic[Result]):
    """Updates the weights of a module that returns a loss.

    Plain: PyTorch's operations one by one. Compiled: the same through torch.compile. Fast: the forward pass uses bf16
    copies of the weights, for which there are kernels, and each pass is a CUDA graph. Several processes sum their
    gradients during the backward pass of the last micro-batch, or of each if they divide the weights.
    """

    weights: "Weights | ShardedWeights"
    optimizer: Optimizer
    working: torch.dtype | None  # of the weights in the forward pass, where it differs from theirs
    _network: Network
    _step: Callable[[], None]
    _summed: "Buckets | ShardedWeights"  # takes the gradient of the last micro-batch

    def __init__(self, module: Any, config: TrainConfig, processes: Processes) -> None:
        self.module: Learner = module
        self.config, self.processes = config, processes
        self.pace = Pace(processes)
        self._passes: dict[tuple[bool, bool], Callable[..., tuple[Result, Tensor]]] = {
            (first, last): partial(self._forward_and_backward, first, last)
            for first in (True, False)
            for last in (True, False)
        }
        self._recorded = self._passes
        if config.sharding == "full" and processes.grouped:
            self._divide(module)
        else:
            self._lay_out(module)

    def _divide(self, module: Any) -> None:
        """Divide the weights among the processes, which sum the gradient of every micro-batch."""
        from electra.training.sharded import ShardedOptimizer, ShardedWeights  # takes a second

        self.working = torch.bfloat16 if in_bf16(self.config, self.processes.device) else None
        self.weights = self._summed = weights = ShardedWeights(module, self.working, self.processes)
        self.optimizer = ShardedOptimizer(weights, self.config, module.rate, self.processes)
        self._network = weights.call
        self._step = self.optimizer.step

    def _lay_out(self, module: Any) -> None:
        """Make a vector of the weights, of which every process has a copy."""
        how, device = execution(self.config, self.processes.device), self.processes.device
        self.working = torch.bfloat16 if how == "fast" else None
        optimizer = build_optimizer(module.to(device), self.config, self.working, module.rate, self.processes)
        weights = optimizer.weights
        self.optimizer, self.weights, self._summed = optimizer, weights, Buckets(weights, self.processes)
        self._network = torch.compile(weights.call) if how == "compiled" else weights.call
        self._step = optimizer.step
        if how == "fast":
            pool, changes = torch.cuda.graph_pool_handle(), [weights.gradient, optimizer.parts]
            self._recorded = {kind: Captured(work, changes, pool) for kind, work in self._passes.items()}
            self._step = Captured(optimizer.step, changes=optimizer.changes())

    def __call__(self, micro_batches: MicroBatches, rate: float) -> tuple[Result, Tensor]:
        """Update with the weighted mean gradient of some micro-batches; return result and loss of the last one."""
        self.pace.begin()
        for number, inputs in enumerate(micro_batches, 1):
            last = self.processes.grouped and number == len(micro_batches)  # the sum over the processes follows it
            passes = self._recorded if self.module.recordable(*inputs) else self._passes
            result = passes[number == 1, last](*inputs)
        self.optimizer.rate.fill_(rate)
        self._step()
        return result

    def release(self) -> None:
        """Free the CUDA graphs."""
        for work in (*self._recorded.values(), self._step):
            if isinstance(work, Captured):
                work.release()

    def evaluate(self, *inputs: Any) -> Result:
        """Call the module without an update."""
        with autocast(self.config, self.processes.device):
            result: Result = self.weights.call(*inputs)
        return result

    def _forward_and_backward(self, first: bool, last: bool, *inputs: Any) -> tuple[Result, Tensor]:
        with autocast(self.config, self.processes.device):
            result: Result = self._network(*inputs)
            if first:
                self.pace.arrive()
            loss = average_loss(result, self.processes)
            share = self.processes.mean(self.module.share(*inputs))
        (self._summed if last else self.weights).take_gradient(loss * share, first)
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
    if not processes.grouped:
        loss: Tensor = result.loss
        return loss
    counts = processes.mean(torch.stack([term.count for term in result.terms]))
    terms = [term.weight * (term.total / count) for term, count in zip(result.terms, counts, strict=True)]
    return torch.stack(terms).sum()
