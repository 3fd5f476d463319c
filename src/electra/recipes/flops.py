"""What a pre-training run costs: parameters and floating-point operations."""

from dataclasses import dataclass, replace

import torch
from torch import nn

from electra.config.schema import (
    AllTokensMLMObjective,
    MLMObjective,
    ModelConfig,
    Objective,
    PretrainConfig,
    ReplaceMLMObjective,
    SizedGenerator,
    TwoTowerGenerator,
)
from electra.errors import ConfigError
from electra.model.encoder import Encoder
from electra.model.flops import PAPER_PREDICTED, Flops, StandardCount, paper_count
from electra.model.networks import Discriminator, MaskedLM, build_networks
from electra.training.schedule import micro_batches_before, total_steps


@dataclass(frozen=True)
class Cost:
    """Parameters, tokens, and FLOPs by the paper's convention and by the usual one (see `electra.model.flops`)."""

    parameters: dict[str, int]  # embeddings; discriminator and generator stand-alone; joint: shared ones once
    tokens: int
    forward_flops: dict[str, float]  # one sequence through all networks
    train_flops: dict[str, float]


def flops(config: PretrainConfig) -> Cost:
    """Count what a run of this config takes."""
    steps = total_steps(config.train)
    if steps is None:
        raise ConfigError("FLOPs of a budget in hours depend on the machine: set train.steps or train.tokens")
    sequences = micro_batches_before(config.train, steps) * config.train.smallest_batch
    forward = forward_flops(config.model, config.objective, config.train.length)
    return Cost(
        parameters=_parameters(config),
        tokens=sequences * config.train.length,
        forward_flops=forward._asdict(),
        train_flops={name: sequences * count for name, count in forward.with_backward()._asdict().items()},
    )


def forward_flops(model: ModelConfig, objective: Objective, length: int) -> Flops:
    """Count one sequence through all networks."""
    if isinstance(objective, MLMObjective):
        return _masked_lm(model, length, PAPER_PREDICTED, objective.mask_fraction)
    if isinstance(objective, ReplaceMLMObjective):
        main = _masked_lm(model, length, PAPER_PREDICTED, objective.mask_fraction)
    elif isinstance(objective, AllTokensMLMObjective):
        main = _masked_lm(model, length, 1.0, 1.0)
    else:
        paper, standard = paper_count(model, length), StandardCount(model, length)
        main = Flops(paper.encoder + paper.binary_head, standard.encoder + standard.binary_head)
    generator = objective.generator
    if not isinstance(generator, SizedGenerator):
        return main  # uniform and unigram compute nothing
    shape = generator.encoder(model, own_embeddings=generator.sharing == "none")
    if isinstance(generator, TwoTowerGenerator):
        extra = _two_tower(shape, length)
    else:
        extra = _masked_lm(shape, length, PAPER_PREDICTED, objective.mask_fraction)
    return Flops(main.paper + extra.paper, main.standard + extra.standard)


def _masked_lm(shape: ModelConfig, length: int, paper_share: float, share: float) -> Flops:
    paper = replace(paper_count(shape, length), predicted=paper_share)
    standard = StandardCount(shape, length)
    return Flops(paper.encoder + paper.token_head, standard.encoder + standard.token_head(share))


def _two_tower(shape: ModelConfig, length: int) -> Flops:
    """Count two encoders and a head that predicts every token from both, not the masked ones alone."""
    paper = replace(paper_count(shape, length), predicted=1.0)
    wider = 2 * shape.hidden_size * shape.embedding_size * length  # the head reads both towers
    standard = StandardCount(shape, length)
    return Flops(2 * paper.encoder + paper.token_head + wider, 2 * standard.encoder + standard.token_head(1.0) + wider)


def _parameters(config: PretrainConfig) -> dict[str, int]:
    objective = config.objective
    with torch.device("meta"):  # shapes alone
        if isinstance(objective, MLMObjective):
            encoder, discriminator = Encoder(config.model), nn.Module()
            generator: nn.Module = MaskedLM(encoder)
        else:
            encoder, generator = build_networks(config.model, objective.generator, torch.ones(config.model.vocab_size))
            token_head = isinstance(objective, ReplaceMLMObjective | AllTokensMLMObjective)
            discriminator = MaskedLM(encoder) if token_head else Discriminator(encoder)
    return {
        "embeddings": _count(encoder.embeddings),
        "discriminator": _count(discriminator),
        "generator": _count(generator),
        "joint": _count(nn.ModuleList([discriminator, generator])),
    }


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
