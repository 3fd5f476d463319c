import pytest
import torch

from electra.errors import ElectraError
from electra.recipes.hardware import device_name, fitting, matrix_peak


def test_an_apple_gpu_is_named(monkeypatch):
    monkeypatch.setattr("torch.backends.mps.get_name", lambda: "Apple M2")
    assert device_name(torch.device("mps")) == "Apple M2 GPU"


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_only_cuda_gpus_have_a_measured_peak(kind):
    assert matrix_peak(torch.device(kind)) is None


def test_what_does_not_fit_in_the_memory_of_a_cpu_is_one_line():
    with pytest.raises(ElectraError, match="batches do not fit in memory; halve"), fitting("batches", "halve them"):
        torch.empty(2**50)


def test_another_error_is_not_taken_for_a_lack_of_memory():
    with pytest.raises(RuntimeError, match="overflowed"), fitting("batches", "halve them"):
        torch.empty(2**62)
