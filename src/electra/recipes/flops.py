"""What a pre-training run costs: parameters, tokens, and FLOPs counted by running its objective on the meta device.

Matrix products are counted, 2·m·k·n for (m, k) by (k, n), in the forward and the backward pass.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from electra.config.bodies import ModelConfig
from electra.config.objectives import Objective
from electra.config.schema import PretrainConfig
from electra.data.feeding.batch import Batch
from electra.errors import ConfigError
from electra.model.bodies import build_body
from electra.model.initialize import Undrawn
from electra.objectives import base
from electra.objectives.build import build_objective, objective_class
from electra.objectives.draws import Draws
from electra.objectives.masking import slots
from electra.recipes.speed import TOKENIZER
from electra.training.schedule import total_steps


class Flops(NamedTuple):
    """FLOPs of one sequence."""

    forward: float  # through all networks
    train: float  # forward and backward


@dataclass(frozen=True)
class Cost:
    """What a run takes, all of its stages together."""

    parameters: dict[str, int]  # embeddings, each network that has any, and joint: shared ones counted once
    tokens: int
    forward_flops: float  # one sequence through all networks
    train_flops: float


def flops(config: PretrainConfig) -> Cost:
    """Count what a run of this config takes."""
    steps = total_steps(config.train)
    if steps is None:
        raise ConfigError("the FLOPs of a budget in hours depend on the machine: set train.steps or train.tokens")
    length = config.train.length
    sequences = steps * config.train.batch_size
    stages = objective_class(config.objective).stages(config.objective)
    counted = [count_flops(config.model, stage.objective, length) for stage in stages]
    return Cost(
        parameters=count_parameters(on_meta(config.model, config.objective)),
        tokens=len(stages) * sequences * length,
        forward_flops=counted[-1].forward,
        train_flops=sequences * sum(stage.train for stage in counted),
    )


def flops_per_token(config: PretrainConfig) -> float:
    """Count the FLOPs of one token in training, forward and backward."""
    return count_flops(config.model, config.objective, config.train.length).train / config.train.length


@cache
def count_flops(model: ModelConfig, objective: Objective, length: int) -> Flops:
    """Count the FLOPs of one sequence in an objective's step, masked positions by their share.

    A sequence masks whole tokens, 9 of 64 for a share of 0.15; the cost is linear in them, so it is interpolated. What
    one more of them costs does not depend on the number of layers, so it is counted with one.
    """
    share = objective.mask_fraction
    more = objective.model_copy(update={"mask_fraction": share + 1 / length})
    masked, others = slots(share, length), slots(more.mask_fraction, length)
    counted = _count_step(model, objective, length)
    if others == masked:  # nearly none or all of the tokens
        return counted
    exact = (share * length - masked) / (others - masked)
    shallow = model.model_copy(update={"layers": 1})
    once, again = (_count_step(shallow, config, length) for config in (objective, more))
    return Flops(*(total + exact * (b - a) for total, a, b in zip(counted, once, again, strict=True)))


@cache
def _count_step(model: ModelConfig, objective: Objective, length: int) -> Flops:
    step = on_meta(model.model_copy(update={"activation_checkpointing": False}), objective)
    with torch.device("meta"):
        ids = torch.zeros(1, length, dtype=torch.long)
        draws = Draws(*torch.zeros(3, 1, length))
    with _Products() as forward:
        loss = step(Batch(ids, None, None), draws).loss
    with _Products() as backward:
        loss.backward()
    return Flops(forward.flops, forward.flops + backward.flops)


class _Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the FLOPs of matrix products in this thread; PyTorch's own counter sets hooks on the modules of all."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        from torch.utils.flop_counter import flop_registry  # imports Triton

        self.flops, self.formulas = 0, flop_registry

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        if formula := self.formulas.get(function.overloadpacket):
            self.flops += formula(*args, **(kwargs or {}), out_val=result)
        return result


def count_parameters(objective: base.Objective) -> dict[str, int]:
    """Count the parameters of the embeddings, of each network as it is stored, and of all together."""
    network, generator = objective.network, objective.generator
    borrowed = network.encoder.embeddings.source
    elsewhere = 0 if borrowed is network.encoder.embeddings else _count(borrowed)
    found = {"embeddings": _count(network.encoder.embeddings) - elsewhere, network.purpose: _count(network) - elsewhere}
    own = _count(generator) if generator else 0
    return found | ({"generator": own} if own else {}) | {"joint": _count(objective)}


def body_size(model: ModelConfig) -> int:
    """Count the parameters of an encoder without its embeddings, which are looked up, not computed with."""
    with torch.device("meta"), Undrawn():
        encoder = build_body(model)
    return _count(encoder) - _count(encoder.embeddings)


def on_meta(model: ModelConfig, objective: Objective) -> base.Objective:
    """Build an objective on the meta device: shapes without values."""
    with torch.device("meta"), Undrawn():
        return build_objective(objective, model, TOKENIZER, torch.ones(model.vocab_size))


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
