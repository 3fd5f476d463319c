import pytest

from electra.training.processes import joined


@pytest.fixture
def group_of_one(monkeypatch):
    """A single process with a group, as torchrun makes it."""
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}.items():
        monkeypatch.setenv(name, value)
    with joined("cpu") as processes:
        yield processes
