import pytest
import torch

from electra.training.update import execution


@pytest.mark.parametrize(
    ("changes", "device", "capability", "chosen"),
    [
        ({}, "cpu", None, "plain"),
        ({}, "cuda", (9, 0), "fast"),
        ({}, "cuda", (8, 6), "fast"),
        ({}, "cuda", (7, 5), "plain"),
        ({"precision": "float32"}, "cuda", (9, 0), "plain"),
        ({"execution": "compiled"}, "cpu", None, "compiled"),
        ({"execution": "plain"}, "cuda", (9, 0), "plain"),
    ],
)
def test_steps_are_fast_on_a_gpu_with_bf16_unless_asked_otherwise(
    tiny_config, monkeypatch, changes, device, capability, chosen
):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert execution(tiny_config.train.model_copy(update=changes), torch.device(device)) == chosen
