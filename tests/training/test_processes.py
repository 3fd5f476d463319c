import re
from pathlib import Path

import pytest
import torch

import electra
from electra.errors import ConfigError
from electra.recipes.train import train
from electra.training.processes import _hosts, joined

TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


def test_only_two_modules_know_of_other_processes():
    """An objective returns sums and counts; training averages them."""
    root = Path(electra.__file__).parent
    users = [
        path
        for path in root.rglob("*.py")
        if re.search(r"torch\.distributed|torch import distributed", path.read_text())
    ]
    assert {str(path.relative_to(root)) for path in users} == {"training/processes.py", "training/sharded.py"}


def test_an_incomplete_launch_names_the_missing_variable(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"^WORLD_SIZE is set, but RANK is not; start with torchrun, or unset"):
        joined("cpu").__enter__()


def test_processes_with_different_software_do_not_begin(monkeypatch, group_of_one):
    def gathered(found, own):
        found[:] = [own, ("node7", "electra 0.0 with torch 1.0")]

    monkeypatch.setattr("torch.distributed.all_gather_object", gathered)
    with pytest.raises(
        ConfigError, match=r"^rank 1 on node7 has electra 0.0 with torch 1.0, but rank 0 on .* the same"
    ):
        _hosts(2)


def test_an_address_that_nobody_answers_is_named(monkeypatch):
    for name, value in {**TORCHRUN, "MASTER_ADDR": "does-not-exist.invalid"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^cannot meet the other processes at does-not-exist.invalid:1: "):
        joined("cpu").__enter__()


def test_train_refuses_to_run_in_several_processes(monkeypatch, tmp_path):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^train runs in a single process: start it without torchrun"):
        train(tmp_path, hours=1.0, out=tmp_path / "run")


def test_a_process_without_a_gpu_is_refused(monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(ConfigError, match=r"^more processes than GPUs \(1\); start one process per GPU$"):
        joined("cuda").__enter__()


def test_an_apple_gpu_trains_in_a_single_process(monkeypatch):
    monkeypatch.setattr("electra.training.processes.find_device", torch.device)
    with joined("mps") as processes:
        assert (processes.world_size, processes.device.type) == (1, "mps")
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^an Apple GPU trains in a single process; start it without torchrun"):
        joined("mps").__enter__()
