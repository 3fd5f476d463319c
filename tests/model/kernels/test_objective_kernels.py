"""A training step with the kernels equals the plain step."""

import pytest
import torch

from electra.config.load import load_config
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.objectives.build import build_objective
from electra.objectives.draws import draw


@pytest.mark.parametrize("padded", [False, True])
def test_a_step_of_replaced_token_detection_equals_the_plain_one(device, monkeypatch, padded):
    if device.type == "cuda":
        pytest.skip("on a GPU, the kernels only support bf16")
    config = load_config("tiny", ["model.layers=1", "model.vocab_size=300"])
    torch.manual_seed(0)
    objective = build_objective(config.objective, config.model, wordpiece(SPECIAL_TOKENS))
    ids = torch.randint(len(SPECIAL_TOKENS), 300, (3, 24))
    attention = torch.ones_like(ids)
    attention[1, 16:], attention[2, :10] = 0, 2
    batch = Batch(ids, attention, torch.zeros_like(ids)) if padded else Batch(ids, None, None)
    draws = draw(1, 2, 3, 24, device=device)
    found = objective(batch, draws)
    gradients = torch.autograd.grad(found.loss, list(objective.parameters()))
    monkeypatch.delenv("TRITON_INTERPRET")
    expected = objective(batch, draws)
    torch.testing.assert_close(found.loss, expected.loss)
    for ours, theirs in zip(gradients, torch.autograd.grad(expected.loss, list(objective.parameters())), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5 * theirs.abs().max().item() + 1e-8)
