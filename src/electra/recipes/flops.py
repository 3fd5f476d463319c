"""What a pre-training run costs: parameters and floating-point operations."""

from dataclasses import dataclass, replace

import torch
from torch import nn

from electra.config.schema import (
    MLMObjective,
    ModelConfig,
    PretrainConfig,
    SizedGenerator,
    TwoTowerGenerator,
)
from electra.errors import ConfigError
from electra.model.encoder import Encoder
from electra.model.flops import StandardCount, paper_count
from electra.model.networks import MaskedLM, build_networks
from electra.training.schedule import total_steps


@dataclass(frozen=True)
class Cost:
    """Parameters, tokens, and FLOPs by the paper's convention and by the usual one (see `electra.model.flops`)."""

    parameters: dict[str, int]  # embeddings; discriminator and generator stand-alone; joint: shared ones once
    tokens: int
    forward_flops: dict[str, float]  # one sequence through all networks
    train_flops: dict[str, float]


def flops(config: PretrainConfig) -> Cost:
    """Count what a run of this config takes."""
    train = config.train
    steps = total_steps(train)
    if steps is None:
        raise ConfigError("FLOPs of a budget in hours depend on the machine: set train.steps or train.tokens")
    sequences = train.batch_size * steps
    paper, standard = _forward(config)
    return Cost(
        parameters=_parameters(config),
        tokens=sequences * train.length,
        forward_flops={"paper": paper, "standard": standard},
        train_flops={"paper": 2 * sequences * paper, "standard": 3 * sequences * standard},
    )


def _parameters(config: PretrainConfig) -> dict[str, int]:
    discriminator: nn.Module
    generator: nn.Module
    with torch.device("meta"):  # shapes alone
        if isinstance(config.objective, MLMObjective):
            encoder = Encoder(config.model)
            discriminator, generator = nn.Module(), MaskedLM(encoder)
        else:
            networks = build_networks(config.model, config.objective.generator)
            encoder = networks.discriminator.encoder
            discriminator, generator = networks.discriminator, networks.generator
    return {
        "embeddings": _count(encoder.embeddings),
        "discriminator": _count(discriminator),
        "generator": _count(generator),
        "joint": _count(nn.ModuleList([discriminator, generator])),
    }


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _forward(config: PretrainConfig) -> tuple[float, float]:
    objective, length = config.objective, config.train.length
    if isinstance(objective, MLMObjective):
        return _masked_lm(config.model, length, objective.mask_fraction)
    main, standard_main = paper_count(config.model, length), StandardCount(config.model, length)
    paper: float = main.encoder + main.binary_head
    standard: float = standard_main.encoder + standard_main.binary_head
    generator = objective.generator
    if isinstance(generator, SizedGenerator):
        shape = generator.encoder(config.model, own_embeddings=generator.sharing == "none")
        count = _two_tower if isinstance(generator, TwoTowerGenerator) else _masked_lm
        extra_paper, extra_standard = count(shape, length, objective.mask_fraction)
        return paper + extra_paper, standard + extra_standard
    return paper, standard  # the uniform generator computes nothing


def _masked_lm(shape: ModelConfig, length: int, mask_fraction: float) -> tuple[float, float]:
    paper, standard = paper_count(shape, length), StandardCount(shape, length)
    return paper.encoder + paper.token_head, standard.encoder + standard.token_head(mask_fraction)


def _two_tower(shape: ModelConfig, length: int, mask_fraction: float) -> tuple[float, float]:
    """Count two encoders and a head that predicts every token from both, not the masked ones alone."""
    paper = replace(paper_count(shape, length), predicted=1.0)
    wider = 2 * shape.hidden_size * shape.embedding_size * length  # the head reads both towers
    standard = StandardCount(shape, length)
    return 2 * paper.encoder + paper.token_head + wider, 2 * standard.encoder + standard.token_head(1.0) + wider
