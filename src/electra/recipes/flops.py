"""What a pre-training run costs: parameters and floating-point operations."""

from dataclasses import dataclass, replace
from typing import TypeGuard

import torch
from torch import nn

from electra.config.schema import (
    AllTokensMLMObjective,
    CorrectiveObjective,
    ElectraObjective,
    ElectricObjective,
    MaskedLMGenerator,
    MLMObjective,
    ModelConfig,
    Objective,
    PretrainConfig,
    ReplaceMLMObjective,
    SizedGenerator,
    TwoTowerGenerator,
)
from electra.errors import ConfigError
from electra.model.encoder import DisentangledEmbeddings
from electra.model.flops import PAPER_PREDICTED, Flops, StandardCount, paper_count
from electra.objectives.build import build_objective
from electra.recipes.speed import TOKENIZER
from electra.training.schedule import micro_batches_before, total_steps

NOTHING = Flops(0.0, 0.0)


@dataclass(frozen=True)
class Cost:
    """Parameters, tokens, and FLOPs by the paper's convention and by the usual one (see `electra.model.flops`)."""

    parameters: dict[str, int]  # embeddings; discriminator and generator stand-alone; joint: shared ones once
    tokens: int
    forward_flops: dict[str, float]  # one sequence through all networks
    train_flops: dict[str, float]


def flops(config: PretrainConfig) -> Cost:
    """Count what a run of this config takes, both stages of one that has two."""
    steps = total_steps(config.train)
    if steps is None:
        raise ConfigError("FLOPs of a budget in hours depend on the machine: set train.steps or train.tokens")
    model, objective, length = config.model, config.objective, config.train.length
    sequences = micro_batches_before(config.train, steps) * config.train.smallest_batch
    stages = [objective]
    if _trains(objective, "two_stage"):
        stages.insert(0, MLMObjective(mask_fraction=objective.mask_fraction))
    trained = [training_flops(model, stage, length) for stage in stages]
    return Cost(
        parameters=_parameters(config),
        tokens=len(stages) * sequences * length,
        forward_flops=forward_flops(model, objective, length)._asdict(),
        train_flops={name: sequences * sum(getattr(stage, name) for stage in trained) for name in Flops._fields},
    )


def forward_flops(model: ModelConfig, objective: Objective, length: int) -> Flops:
    """Count one sequence through all networks."""
    main, generator = _networks(model, objective, length)
    return main.plus(generator)


def training_flops(model: ModelConfig, objective: Objective, length: int) -> Flops:
    """Count one sequence of an update: forward and backward, and what differs in the other ways to train."""
    main, generator = _networks(model, objective, length)
    learning = generator.with_backward()
    if _trains(objective, "two_stage"):
        learning = generator  # which learns no more
    if _trains(objective, "adversarial"):  # the reward that is expected is guessed from a reading of its own
        assert isinstance(objective.generator, MaskedLMGenerator)
        learning = learning.plus(_masked_lm(_shape(objective.generator, model), length, 0.0, 0.0))
    return main.with_backward().plus(learning)


def _networks(model: ModelConfig, objective: Objective, length: int) -> tuple[Flops, Flops]:
    """Count one sequence through the main network, and through the generator."""
    masked = PAPER_PREDICTED, objective.mask_fraction
    paper, standard = paper_count(model, length), StandardCount(model, length)
    detector = Flops(paper.encoder + paper.binary_head, standard.encoder + standard.binary_head)
    if isinstance(objective, MLMObjective):
        return _masked_lm(model, length, *masked), NOTHING
    if isinstance(objective, ReplaceMLMObjective):
        main = _masked_lm(model, length, *masked)
    elif isinstance(objective, AllTokensMLMObjective):
        main = _masked_lm(model, length, 1.0, 1.0)
    elif isinstance(objective, CorrectiveObjective):
        main = detector.plus(Flops(paper.token_head, standard.token_head(objective.mask_fraction)))
    else:
        main = detector
    generator = objective.generator
    if not isinstance(generator, SizedGenerator):
        return main, NOTHING  # uniform and unigram compute nothing
    if _trains(objective, "two_stage"):
        return main, _masked_lm(model, length, *masked)
    shape = _shape(generator, model)
    if isinstance(generator, TwoTowerGenerator):
        return main, _two_tower(shape, length, *((1.0, 1.0) if isinstance(objective, ElectricObjective) else masked))
    return main, _masked_lm(shape, length, *masked)


def _masked_lm(shape: ModelConfig, length: int, paper_share: float, share: float) -> Flops:
    """Count an encoder and a head that predicts a share of the tokens."""
    paper = replace(paper_count(shape, length), predicted=paper_share)
    standard = StandardCount(shape, length)
    return Flops(paper.encoder + paper.token_head, standard.encoder + standard.token_head(share))


def _two_tower(shape: ModelConfig, length: int, paper_share: float, share: float) -> Flops:
    """Count two encoders and a head that predicts a share of the tokens from both."""
    paper = replace(paper_count(shape, length), predicted=paper_share)
    standard = StandardCount(shape, length)
    wider = 2 * shape.hidden_size * shape.embedding_size * length  # the head reads both towers
    return Flops(
        2 * paper.encoder + paper.token_head + paper_share * wider,
        2 * standard.encoder + standard.token_head(share) + share * wider,
    )


def _shape(generator: MaskedLMGenerator | TwoTowerGenerator, model: ModelConfig) -> ModelConfig:
    return generator.encoder(model, own_embeddings=generator.sharing == "none")


def _trains(objective: Objective, algorithm: str) -> TypeGuard[ElectraObjective]:
    return isinstance(objective, ElectraObjective) and objective.algorithm == algorithm


def _parameters(config: PretrainConfig) -> dict[str, int]:
    with torch.device("meta"):  # shapes alone
        counts = torch.ones(config.model.vocab_size)
        objective = build_objective(config.objective, config.model, TOKENIZER, counts)
    network, generator = objective.network, objective.generator
    embeddings = network.encoder.embeddings
    theirs = _count(embeddings.shared) if isinstance(embeddings, DisentangledEmbeddings) else 0
    return {
        "embeddings": _count(embeddings) - theirs,
        "discriminator": _count(network) - theirs if generator else 0,  # BERT's network is one of the generator's kind
        "generator": _count(generator or network),
        "joint": _count(objective),
    }


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
