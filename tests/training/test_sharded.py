"""Weights that are divided, in a group of a single process; `test_update` has several."""

import runpy
from pathlib import Path

import pytest
import torch

from electra.config.load import load_config
from electra.errors import ConfigError
from electra.objectives.build import build_objective
from electra.training.processes import Processes
from electra.training.update import Update

RANKS = runpy.run_path(str(Path(__file__).with_name("ranks.py")))
ALONE = Processes(0, 1, torch.device("cpu"))
SETTINGS = [*(f"model.{key}" for key in RANKS["SHAPE"]), *RANKS["TRAIN"], "train.optimizer=adamw"]


def updated(processes, *overrides):
    """Return losses, gradient norms and weights of a few updates."""
    config = load_config("tiny", [*SETTINGS, *overrides])
    torch.manual_seed(0)
    update = Update(build_objective(config.objective, config.model, RANKS["WORDS"]), config.train, processes)
    numbers = []
    for _ in range(3):
        _, loss = update(list(RANKS["micro_batches"](0, 1)), 1e-3)
        numbers.append([loss.item(), update.optimizer.norm.item()])
    update.weights.complete()
    return torch.tensor(numbers), dict(update.weights.module.named_parameters())


@pytest.mark.parametrize("override", ["model.activation_checkpointing=true", "objective.generator.sharing=all"])
def test_a_process_that_divides_with_nobody_trains_what_one_alone_trains(group_of_one, override):
    settings = [override, *(["objective.generator.width=1.0"] if "all" in override else [])]
    numbers, weights = updated(group_of_one, *settings, "train.sharding=full")
    their_numbers, their_weights = updated(ALONE, *settings)
    torch.testing.assert_close(numbers, their_numbers)
    torch.testing.assert_close(weights, their_weights)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")
def test_the_forward_pass_can_be_in_bf16(group_of_one):
    numbers, weights = updated(group_of_one, "train.sharding=full", "train.precision=bf16")
    their_numbers, their_weights = updated(ALONE)
    torch.testing.assert_close(numbers, their_numbers, rtol=0.05, atol=0)
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    moved = sum((weights[name] - theirs).square().sum() for name, theirs in their_weights.items()).sqrt()
    assert moved < 0.1 * sum(theirs.square().sum() for theirs in their_weights.values()).sqrt()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.optimizer=muon", "sharding full divides matrices, and Muon needs all of one: set optimizer to adamw"),
        ("train.execution=fast", "sharding full runs plain PyTorch, not execution fast: drop one of them"),
    ],
)
def test_what_cannot_be_divided_is_refused(override, message):
    with pytest.raises(ConfigError, match=message):
        load_config("tiny", ["train.sharding=full", override, "train.steps=1"])
