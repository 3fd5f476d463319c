import pytest
import torch

from electra.training.execution import autocast, execution


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
    ("changes", "device", "chosen"),
    [
        ({}, "cpu", "plain"),
        ({}, "cuda", "fast"),
        ({"precision": "float32"}, "cuda", "plain"),
        ({"execution": "compiled"}, "cpu", "compiled"),
        ({"execution": "plain"}, "cuda", "plain"),
    ],
)
def test_steps_are_fast_on_a_gpu_in_bf16_unless_asked_otherwise(tiny_config, changes, device, chosen):
    assert execution(tiny_config.train.model_copy(update=changes), torch.device(device)) == chosen
