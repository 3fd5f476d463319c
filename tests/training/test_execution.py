import pytest
import torch

from electra.training.execution import autocast, is_compiled


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


@pytest.mark.parametrize(
    ("wanted", "device", "compiled"),
    [("auto", "cpu", False), ("auto", "cuda", True), ("on", "cpu", True), ("off", "cuda", False)],
)
def test_steps_are_compiled_on_a_gpu_unless_asked_otherwise(tiny_config, wanted, device, compiled):
    train = tiny_config.train.model_copy(update={"compile": wanted})
    assert is_compiled(train, torch.device(device)) == compiled
