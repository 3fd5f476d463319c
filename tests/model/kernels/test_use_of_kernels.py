"""Inference with and without the kernels."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from electra.model import kernels, ops
from electra.model.bodies.electra import ElectraBody, ElectraEmbeddings, Layer
from electra.model.kernels import attention
from electra.model.pretrained import load

TEXTS = ["the chef", "a cat sat on the mat .", "it was good and then the dog ate"]


def test_encode_and_detect_are_the_same_with_the_kernels(tiny_folder, device, monkeypatch):
    """In bf16 on a GPU; in float32 in the interpreter, which computes bf16 products incorrectly."""
    model = load(tiny_folder, device=device.type)
    found, detections = model.encode(TEXTS), model.detect(TEXTS[1])
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    plain = load(tiny_folder, device=device.type, precision="float32")
    bound = 2e-5 if device.type == "cpu" else 2e-2
    assert not np.array_equal(found, plain.encode(TEXTS))  # the kernels were used
    np.testing.assert_allclose(found, plain.encode(TEXTS), rtol=0, atol=bound * np.abs(found).max())
    for ours, theirs in zip(detections, plain.detect(TEXTS[1]), strict=True):
        assert abs(ours.probability - theirs.probability) < 1.5 * bound


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize("disentangled", [False, True])
def test_16_bit_embeddings_stay_16_bit_so_that_the_kernels_are_used(tiny_config, device, segments, disentangled):
    embeddings = ElectraEmbeddings(tiny_config.model)
    if disentangled:
        embeddings = ElectraEmbeddings(tiny_config.model, embeddings)
    embeddings.to(device, torch.bfloat16)
    ids = torch.arange(12, device=device).view(2, 6)
    with torch.autocast(device.type, torch.bfloat16):
        embedded = embeddings(ids, ids % 2 if segments else None)
    assert embedded.dtype == torch.bfloat16


def test_the_table_says_what_the_kernels_compute(device):
    expected = {operation: faster for operation, faster in ops.FASTER.items() if faster == "triton"}
    assert ops.table(device, torch.bfloat16).items() >= expected.items()


def test_an_attention_mask_may_be_a_view_of_one_row(tiny_config, device):
    torch.manual_seed(0)
    body = ElectraBody(tiny_config.model).to(device, torch.float32 if device.type == "cpu" else torch.bfloat16).eval()
    ids, row = torch.arange(24, device=device).view(2, 12), (torch.arange(12, device=device) < 7).long()
    assert torch.equal(body(ids, row.expand(2, -1)), body(ids, row.repeat(2, 1)))


class ScaledLayer(Layer):
    """A block with one more layer."""

    def __init__(self, config):
        super().__init__(config)
        self.scale = torch.nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, hidden, mask):
        return self.scale(super().forward(hidden, mask))


def test_a_layer_that_was_added_to_a_block_is_not_lost_in_the_kernels(tiny_config, device, monkeypatch):
    torch.manual_seed(0)
    body = ElectraBody(tiny_config.model)
    body.layers = torch.nn.ModuleList(ScaledLayer(tiny_config.model) for _ in body.layers)
    body.to(device, torch.float32 if device.type == "cpu" else torch.bfloat16).eval()
    ids = torch.arange(12, device=device).view(2, 6)
    found = body(ids)
    monkeypatch.setattr(ops, "choose", lambda operation, tensor: "plain")
    bound = 2e-5 if device.type == "cpu" else 2e-2
    torch.testing.assert_close(found, body(ids), rtol=0, atol=bound * found.abs().max().item())


@pytest.mark.parametrize(
    ("chip", "tokens", "head_size", "fits"),
    [(233_472, 128, 128, True), (102_400, 128, 64, False), (102_400, 128, 32, True), (102_400, 64, 64, True)],
)
def test_all_scores_of_a_head_stay_on_the_chip_if_they_fit(monkeypatch, chip, tokens, head_size, fits):
    found = SimpleNamespace(shared_memory_per_multiprocessor=chip)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
    assert attention.fits(tokens, head_size, torch.device("cuda")) == fits


@pytest.mark.parametrize(
    ("chip", "head_size", "fits"),
    [(233_472, 128, True), (102_400, 128, False), (102_400, 64, True), (233_472, 48, False)],
)
def test_heads_that_do_not_fit_on_the_chip_are_not_for_the_kernels(tiny_config, monkeypatch, chip, head_size, fits):
    monkeypatch.setattr(kernels, "on_chip", lambda device: chip)
    body = ElectraBody(tiny_config.model.model_copy(update={"hidden_size": 2 * head_size, "heads": 2}))
    assert body.fits_kernels(torch.empty(2, 6, 2 * head_size), 8 * head_size, Layer) == fits
