"""The kernels of the body `modern`, and of Muon, against the plain path."""

import numpy as np
import pytest
import torch

from electra.config.bodies import ModernModel
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.model import ops
from electra.model.bodies import stack
from electra.model.bodies.modern import ModernBody
from electra.model.networks import Discriminator
from electra.model.packing import Packing
from electra.model.pretrained import Pretrained
from electra.model.windows import LIMITS
from electra.training.muon import Muon

CONFIG = ModernModel(hidden_size=32, layers=3, heads=2, feed_forward_size=48, vocab_size=50, window=16)


def plainly(monkeypatch, function):
    with monkeypatch.context() as patch:
        patch.setattr(ops, "choose", lambda *arguments: "plain")
        return function()


@pytest.fixture
def body(device, dtype):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("the interpreter computes bf16 matrix products incorrectly")
    if dtype == torch.float32 and device.type == "cuda":
        pytest.skip("on a GPU, the kernels only support bf16")
    torch.manual_seed(0)
    body = ModernBody(CONFIG)
    for weight in body.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    return body.to(device, dtype)


@pytest.mark.parametrize(  # both kinds of attention; the interpreter takes seconds for a long row
    ("ends", "length", "packed"), [([20, 40], 45, False), ([20, 40], 45, True), ([40], 130, True)]
)
def test_the_stack_equals_the_plain_blocks(body, agree, device, dtype, monkeypatch, ends, length, packed):
    ids = torch.randint(CONFIG.vocab_size, (len(ends), length), device=device)
    later = torch.arange(length, device=device) >= torch.tensor(ends, device=device)[:, None]
    texts = 1 + later.long() if packed else None
    gradient = torch.randn(*ids.shape, CONFIG.hidden_size, device=device, dtype=dtype)

    def run():
        hidden = body(ids, texts)
        return hidden, torch.autograd.grad(hidden, list(body.parameters()), gradient)

    hidden, gradients = run()
    expected, theirs = plainly(monkeypatch, run)
    assert not torch.equal(hidden, expected)  # the kernels were used
    agree([hidden], [expected], CONFIG.layers)
    agree(gradients, theirs, CONFIG.layers)
    with torch.no_grad():
        assert torch.equal(body(ids, texts), hidden)  # also where all layers reuse the memory of one


def test_the_gradients_of_one_group_are_known_before_the_next_is_computed(body, agree, device, dtype, monkeypatch):
    ids = torch.randint(CONFIG.vocab_size, (2, 45), device=device)
    gradient = torch.randn(2, 45, CONFIG.hidden_size, device=device, dtype=dtype)
    weights = [layer.contract.weight for layer in body.layers]
    together = torch.autograd.grad(body(ids), weights, gradient)
    monkeypatch.setattr(stack, "GROUP", 1)
    known = []
    for place, weight in enumerate(weights):
        weight.register_hook(lambda gradient, place=place: known.append(place))
    agree(torch.autograd.grad(body(ids), weights, gradient), together)
    assert known == [2, 1, 0]


def test_a_text_has_the_same_states_alone_and_packed(body, agree, device):
    ids = torch.randint(CONFIG.vocab_size, (1, 130), device=device)
    texts = 1 + (torch.arange(130, device=device) >= 60).long()[None]
    packed = body(ids, texts)
    agree([packed[:, :60], packed[:, 60:]], [body(ids[:, :60]), body(ids[:, 60:])], CONFIG.layers)


def test_texts_are_packed_only_where_the_stack_computes_them(body, device, dtype):
    assert body.packs(dtype, device)
    assert not ModernBody(CONFIG.model_copy(update={"dropout": 0.1})).packs(dtype, device)


def test_texts_are_encoded_without_padding(body, device, dtype, monkeypatch):
    if device.type == "cuda":
        monkeypatch.setitem(LIMITS, "cuda", LIMITS["cpu"])
    tokenizer = wordpiece([*SPECIAL_TOKENS, *"abcdefgh"])
    model = Pretrained(Discriminator(body), tokenizer, precision="bf16" if dtype == torch.bfloat16 else "float32")
    model.network.to(device, dtype)
    texts = ["a b c", "e f g h a b c d e"]
    packed = []
    monkeypatch.setattr(Packing, "run", lambda *inputs, run=Packing.run: packed.append(1) or run(*inputs))
    found = model.encode(texts)
    assert packed
    bound = 2e-2 if dtype == torch.bfloat16 else 1e-5
    np.testing.assert_allclose(found, np.concatenate([model.encode([text]) for text in texts]), atol=bound)


@pytest.mark.filterwarnings("ignore:.* encountered in")  # numpy's, of the interpreter
@pytest.mark.parametrize("shape", [(3, 40, 70), (1, 200, 30)])
@pytest.mark.parametrize("bad", [0.0, 1.0])
def test_muons_kernels_equal_its_plain_update(device, monkeypatch, shape, bad):
    torch.manual_seed(0)
    given = [torch.randn(shape, device=device) for _ in range(3)]  # values, gradient, means
    if bad:
        given[1][0, 0, :2] = torch.tensor([torch.nan, torch.inf])
    scale, rate, flag = (torch.tensor(number, device=device) for number in (2.0, 0.1, bad))

    def run():
        values, gradient, means = (tensor.clone() for tensor in given)
        Muon(scale, rate, flag, factor=0.5, decay=0.01).update(values, gradient, means, values.bfloat16())
        return values, means

    values, means = run()
    expected, their_means = plainly(monkeypatch, run)
    torch.testing.assert_close(values, expected, rtol=0, atol=3e-3)
    torch.testing.assert_close(means, their_means)
    assert torch.equal(values, given[0]) is bool(bad)
