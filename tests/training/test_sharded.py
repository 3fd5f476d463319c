"""Weights that are divided, in a group of a single process; `test_update` has several."""

import runpy
from pathlib import Path

import pytest
import torch

from electra.config.load import load_config
from electra.errors import ConfigError
from electra.objectives.build import build_objective
from electra.training.capture import mapped
from electra.training.checkpoint import make_checkpoints
from electra.training.processes import Processes, joined
from electra.training.update import Update

RANKS = runpy.run_path(str(Path(__file__).with_name("ranks.py")))
SETTINGS = [*(f"model.{key}" for key in RANKS["SHAPE"]), *RANKS["TRAIN"], "train.optimizer=adamw"]


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def group(request, monkeypatch):
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    with joined(request.param) as processes:
        yield processes


def alone(group):
    """Return the same process without a group."""
    return Processes(0, 1, group.device)


def updater(processes, *overrides):
    """Return an update, and a function that makes some and returns losses and gradient norms."""
    config = load_config("tiny", [*SETTINGS, *overrides])
    torch.manual_seed(0)
    update = Update(build_objective(config.objective, config.model, RANKS["WORDS"]), config.train, processes)

    def work(updates=3):
        numbers = []
        for _ in range(updates):
            inputs = [mapped(part, lambda tensor: tensor.to(processes.device)) for part in RANKS["micro_batches"](0, 1)]
            _, loss = update(inputs, 1e-3)
            numbers.append([loss.item(), update.optimizer.norm.item()])
        return torch.tensor(numbers)

    return update, work


def complete(update):
    """Return all weights."""
    update.weights.complete()
    return {name: weight.detach().cpu() for name, weight in update.weights.module.named_parameters()}


@pytest.mark.parametrize(
    "override", ["model.activation_checkpointing=true", "objective.generator.sharing=all objective.generator.width=1.0"]
)
def test_a_process_that_divides_with_nobody_trains_what_one_alone_trains(group, override):
    settings = [*override.split(), "train.execution=plain", "train.precision=float32"]
    ours, work = updater(group, *settings, "train.sharding=full")
    theirs, their_work = updater(alone(group), *settings)
    torch.testing.assert_close(work(), their_work())
    torch.testing.assert_close(complete(ours), complete(theirs), rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")  # a CPU without 16-bit products
def test_the_forward_pass_can_be_in_bf16(group):
    ours, work = updater(group, "train.sharding=full", "train.precision=bf16")
    theirs, their_work = updater(alone(group), "train.execution=plain", "train.precision=float32")
    torch.testing.assert_close(work(), their_work(), rtol=0.05, atol=0)
    weights, expected = complete(ours), complete(theirs)
    assert all(weight.dtype == torch.float32 for weight in weights.values())
    distance = sum((weights[name] - weight).square().sum() for name, weight in expected.items()).sqrt()
    assert distance < 0.1 * sum(weight.square().sum() for weight in expected.values()).sqrt()


def test_training_continues_from_a_checkpoint(group, tmp_path):
    update, work = updater(group, "train.sharding=full", "train.precision=float32")
    checkpoints = make_checkpoints(tmp_path, 1, group)
    work()
    checkpoints.save(update.weights.module, update.optimizer, {"step": 3}, best=False)
    checkpoints.wait()
    expected = work()
    again, work_again = updater(group, "train.sharding=full", "train.precision=float32")
    assert checkpoints.restore(again.weights.module, again.optimizer).state == {"step": 3}
    torch.testing.assert_close(work_again(), expected)
    torch.testing.assert_close(complete(again), complete(update))


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
