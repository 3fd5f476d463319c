import pytest
import torch

from electra.recipes.hardware import device_name, matrix_peak


def test_an_apple_gpu_is_named(monkeypatch):
    monkeypatch.setattr("torch.backends.mps.get_name", lambda: "Apple M2")
    assert device_name(torch.device("mps")) == "Apple M2 GPU"


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_only_cuda_gpus_have_a_measured_peak(kind):
    assert matrix_peak(torch.device(kind)) is None
