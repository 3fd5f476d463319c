"""Which implementation an operation gets, and that the faster ones compute what the plain one does."""

import threading

import pytest
import torch
from torch import nn

from electra.config.bodies import ModernModel
from electra.model import ops
from electra.model.bodies import build_body
from electra.model.bodies.modern import ModernBody
from electra.training.muon import Muon

CPU = torch.device("cpu")
SCARCE = 1e-9  # a probability of dropout that reaches its implementations and drops nothing
EVERY = {
    "post_norm_stack": "plain",
    "pre_norm_stack": "plain",
    "norm": "plain",
    "norm_and_drop": "plain",
    "dropout": "cpu",
    "attend": "cpu",
    "token_logits": "plain",
    "cross_entropy": "plain",
    "sample": "plain",
    "muon": "plain",
}
MODERN = ModernModel(hidden_size=8, layers=2, heads=2, feed_forward_size=12, vocab_size=8, window=4)


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), requires_grad=True)


def call(operation: str, config, tensor: torch.Tensor) -> torch.Tensor:
    """Compute something of a (2, 3, 6, 8) tensor through the operation, without chance."""
    tokens, dropout = torch.arange(18).view(3, 6) % 8, ops.Dropout(SCARCE).train()
    body = build_body(config.model_copy(update={"dropout": 0.0, "attention_dropout": 0.0})).train()
    torch.manual_seed(1)
    modern = ModernBody(MODERN)
    for parameter in (*body.parameters(), *modern.parameters()):
        nn.init.normal_(parameter, std=0.2)
    calls = {
        "post_norm_stack": lambda: body(tokens) * tensor.sum(),
        "pre_norm_stack": lambda: modern(tokens) * tensor.sum(),
        "norm": lambda: ops.norm(tensor, nn.LayerNorm(8, bias=False)),
        "muon": lambda: muon(tensor.detach()[0]) * tensor.sum(),
        "norm_and_drop": lambda: ops.norm_and_drop(tensor, nn.LayerNorm(8), dropout),
        "dropout": lambda: dropout(tensor),
        "attend": lambda: ops.attend(tensor, tensor.sin(), tensor.cos(), None, dropout),
        "token_logits": lambda: ops.token_logits(tensor[0], tensor[1, 0], tensor[1, 1, :, 0]),
        "cross_entropy": lambda: ops.cross_entropy(tensor[0], tokens)[0],
        "sample": lambda: ops.sample(tensor[0], torch.linspace(0, 0.99, 18).view(3, 6)) * tensor.sum(),
    }
    output: torch.Tensor = calls[operation]()
    return output


def muon(matrices: torch.Tensor) -> torch.Tensor:
    values, means, (scale, rate, bad) = matrices.clone(), torch.zeros_like(matrices), torch.tensor([1.0, 0.1, 0.0])
    Muon(scale, rate, bad, factor=1.0, decay=0.0).update(values, matrices, means, values)
    return values


def test_the_table_names_the_implementation_of_every_operation_in_training():
    assert ops.table(CPU, torch.float32) == EVERY
    assert set(EVERY) == set(ops.FASTER)


def test_everything_is_plain_in_bf16_and_without_gradients():
    plain = dict.fromkeys(ops.FASTER, "plain")
    assert ops.table(CPU, torch.bfloat16) == plain
    with torch.no_grad():
        assert ops.table(CPU, torch.float32) == plain


@pytest.mark.skipif(not ops.TRITON, reason="needs Triton")
def test_triton_identifies_itself_in_the_background_if_there_is_a_gpu(monkeypatch):
    identified = threading.Event()
    monkeypatch.setattr("triton.runtime.cache.triton_key", identified.set)
    ops.prepare(CPU)
    assert not identified.wait(0.1)
    ops.prepare(torch.device("cuda"))
    assert identified.wait(60)


def test_an_unknown_operation_is_a_mistake_of_the_program():
    with pytest.raises(KeyError, match="convolve"):
        ops.choose("convolve", torch.zeros(1))


@pytest.mark.parametrize("operation", ops.FASTER)
def test_the_chosen_implementation_equals_the_plain_one_with_its_gradient(operation, tiny_config, monkeypatch):
    tensor = normal(2, 3, 6, 8)
    found = call(operation, tiny_config.model, tensor)
    monkeypatch.setattr(ops, "choose", lambda operation, tensor: "plain")
    expected = call(operation, tiny_config.model, tensor)
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected)
    (ours,), (theirs,) = (torch.autograd.grad(output.square().sum(), [tensor]) for output in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("operation", [name for name, faster in ops.FASTER.items() if faster == "cpu"])
def test_the_hand_written_implementation_is_used_where_the_table_says_so(operation, tiny_config, monkeypatch):
    def refuse(*inputs):
        raise NotImplementedError(operation)

    monkeypatch.setattr(ops.cpu, operation, refuse)
    with pytest.raises(NotImplementedError, match=operation):
        call(operation, tiny_config.model, normal(2, 3, 6, 8))
    with torch.no_grad():
        call(operation, tiny_config.model, normal(2, 3, 6, 8))


@pytest.mark.gpu
def test_gradients_of_masked_attention_are_finite():
    """Those of cuDNN are not, for 64 tokens whose scores are all far below zero."""
    shape = (2, 4, 64, 64)
    query, key, value = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    query[..., 0], key[..., 0] = 10.0, -100.0
    inputs = [part.requires_grad_() for part in (query, key, value)]
    mask = torch.ones(64, 64, dtype=torch.bool, device="cuda").tril()[None, None]
    mixed = ops.attend(*inputs, mask, ops.Dropout(0.0))
    assert all(gradient.isfinite().all() for gradient in torch.autograd.grad(mixed.float().square().sum(), inputs))
