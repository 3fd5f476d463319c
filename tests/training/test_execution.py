import pytest
import torch

from electra.training.execution import execution


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
