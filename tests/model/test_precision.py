import pytest
import torch

from electra.errors import ConfigError
from electra.model.precision import as_used, autocast, find_device


@pytest.mark.parametrize(
    ("precision", "device", "bf16"),
    [
        ("auto", "cpu", False),
        ("float32", "cpu", False),
        ("bf16", "cpu", True),
        pytest.param("auto", "cuda", True, marks=pytest.mark.gpu),
    ],
)
def test_precision_is_bf16_on_a_gpu_and_float32_elsewhere_unless_asked_otherwise(tiny_config, precision, device, bf16):
    train = tiny_config.train.model_copy(update={"precision": precision})
    with autocast(train, torch.device(device)):
        assert torch.is_autocast_enabled(device) == bf16


def test_a_gpu_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    with pytest.raises(ConfigError, match="device=cuda, but PyTorch finds no NVIDIA GPU; drop it, or set device=cpu"):
        find_device("cuda")


def test_a_cpu_uses_a_copy_with_its_matrices_by_columns(tiny_config):
    network = torch.nn.Sequential(torch.nn.Embedding(3, 4), torch.nn.Linear(4, 5))
    used = as_used(network, tiny_config.train)
    assert (used[1].weight.stride(), network[1].weight.stride()) == ((1, 5), (4, 1))
    assert torch.equal(used[1].weight, network[1].weight)
    assert used[0].weight is network[0].weight  # the rest is shared


def test_a_copy_is_used_in_bf16(tiny_config):
    network = torch.nn.Linear(2, 2)
    used = as_used(network, tiny_config.train.model_copy(update={"precision": "bf16"}))
    assert used.weight.dtype == torch.bfloat16
    assert network.weight.dtype == torch.float32
    assert torch.equal(used.weight, network.weight.bfloat16())
