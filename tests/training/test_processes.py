import pytest

from electra.errors import ConfigError
from electra.recipes.train import train
from electra.training.processes import joined

TORCHRUN = {"RANK": "1", "LOCAL_RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": "1"}


def test_half_of_a_launch_is_refused_by_what_is_missing(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ConfigError, match=r"^WORLD_SIZE is set and RANK is not: start with torchrun, or unset"):
        joined("cpu").__enter__()


def test_text_is_prepared_by_one_process(monkeypatch, tmp_path):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=r"^train prepares its text in one process: start it without torchrun"):
        train(tmp_path, hours=1.0, out=tmp_path / "run")


def test_a_process_without_a_gpu_is_refused(monkeypatch):
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    with pytest.raises(ConfigError, match=r"^1 GPUs for more processes: start one process for each GPU$"):
        joined("cuda").__enter__()
