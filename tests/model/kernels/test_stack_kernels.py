"""All blocks of an encoder as one operation, against the reference."""

import pytest
import torch

from electra.model.bodies import stack
from electra.model.bodies.electra_stack import Settings, run_blocks
from electra.model.body import bounds_of
from electra.model.kernels import long_attention
from electra.model.ops import dropout_seeds

from . import plain

HIDDEN, WIDE, HEADS = 32, 80, 2
SETTINGS = Settings(HEADS, share_dropout=0.1, dropout=0.2, eps=1e-12)


@pytest.fixture
def make(normal, dtype, device):
    """Return a function that draws states, the weights of some blocks, texts, seeds and a gradient."""
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("the interpreter computes bf16 matrix products incorrectly")
    if dtype == torch.float32 and device.type == "cuda":
        pytest.skip("on a GPU, the kernels only support bf16")

    def draw(layers, sequences=2, length=17):
        shapes = [(3 * HIDDEN, HIDDEN), (3 * HIDDEN,), (HIDDEN, HIDDEN), (HIDDEN,), (HIDDEN,), (HIDDEN,)]
        shapes += [(WIDE, HIDDEN), (WIDE,), (HIDDEN, WIDE), (HIDDEN,), (HIDDEN,), (HIDDEN,)]
        weights = [(normal(*shape) * 0.2).detach().requires_grad_() for _ in range(layers) for shape in shapes]
        for gain in weights[4::6]:
            gain.data += 1
        torch.manual_seed(0)
        texts = torch.randint(0, 3, (sequences, length)).sort().values.to(device)
        states, gradient = normal(sequences, length, HIDDEN), normal(sequences, length, HIDDEN)
        return states, weights, texts, dropout_seeds(layers, device), gradient.detach()

    return draw


def check(agree, states, weights, texts, seeds, gradient, settings=SETTINGS):
    """Compare the output and all gradients with those of the reference."""
    expected = plain.run_blocks(states.float(), [w.float() for w in weights], texts, seeds, settings)
    found = run_blocks(states, weights, bounds_of(texts), seeds, settings)
    agree([found], [expected], len(seeds))
    wanted = [tensor for tensor in dict.fromkeys([states, *weights]) if tensor.requires_grad]
    ours = torch.autograd.grad(found, wanted, gradient)
    assert [tensor.dtype for tensor in ours] == [tensor.dtype for tensor in wanted]
    agree(ours, torch.autograd.grad(expected, wanted, gradient.float()), len(seeds))


@pytest.mark.parametrize(("layers", "length"), [(3, 17), (1, 32)])
def test_a_stack_equals_its_blocks_in_sequence(make, agree, layers, length):
    check(agree, *make(layers, length=length))


def test_a_stack_with_long_attention_equals_its_blocks(make, agree, monkeypatch):
    monkeypatch.setattr(long_attention, "SHORT", 64)
    check(agree, *make(2, sequences=1, length=70))


def test_without_dropout_the_two_gradients_of_a_norm_stay_separate(make, agree):
    check(agree, *make(2), Settings(HEADS, 0.0, 0.0, 1e-12))


def test_gradients_do_not_depend_on_the_grouping_of_layers(make, agree, monkeypatch):
    states, *others = make(3)
    layer = 2 * 17 * (5 * HIDDEN + WIDE) * states.element_size()
    monkeypatch.setattr(stack, "GROUP", 2 * layer)
    check(agree, states, *others)


def test_the_gradients_of_one_group_are_known_before_the_next_is_computed(make, monkeypatch):
    states, weights, texts, seeds, gradient = make(3)
    monkeypatch.setattr(stack, "GROUP", 1)
    known = []
    for place, weight in enumerate(weights):
        weight.register_hook(lambda gradient, layer=place // 12: known.append(layer))
    torch.autograd.grad(run_blocks(states, weights, bounds_of(texts), seeds, SETTINGS), weights, gradient)
    assert known == [2] * 12 + [1] * 12 + [0] * 12


@pytest.mark.parametrize(
    ("layers", "size", "expected"),
    [(12, 2**28, [(0, 12)]), (5, 2**31, [(0, 1), (1, 3), (3, 5)]), (2, 2**33, [(0, 1), (1, 2)])],
)
def test_groups_respect_the_byte_limit_and_hold_at_least_one_layer(layers, size, expected):
    assert [(group.start, group.stop) for group in stack.group_layers(layers, size)] == expected


def test_blocks_may_share_their_weights(make, agree):
    states, weights, texts, _, gradient = make(1)
    check(agree, states, weights * 2, texts, dropout_seeds(2, states.device), gradient)


def test_weights_and_states_may_be_frozen(make, agree):
    states, weights, *others = make(2)
    for frozen in (states, *weights[:12], *weights[12::3]):
        frozen.requires_grad_(False)
    check(agree, states, weights, *others)


def test_gradients_accumulate(make, agree):
    states, weights, texts, seeds, gradient = make(1)
    bounds = bounds_of(texts)
    for _ in range(2):
        run_blocks(states, weights, bounds, seeds, SETTINGS).backward(gradient)
    twice = torch.autograd.grad(run_blocks(states, weights, bounds, seeds, SETTINGS), weights, 2 * gradient)
    agree([weight.grad for weight in weights], twice)


def test_without_gradients_only_one_layer_is_kept(make, agree):
    states, weights, texts, seeds, _ = make(2)
    bounds = bounds_of(texts)
    kept = run_blocks(states, weights, bounds, seeds, SETTINGS)
    with torch.no_grad():
        passing = run_blocks(states, weights, bounds, seeds, SETTINGS)
    frozen = run_blocks(states.detach(), [weight.detach() for weight in weights], bounds, seeds, SETTINGS)
    agree([passing, frozen], [kept, kept])
    for found in (passing, frozen):
        assert found.untyped_storage().nbytes() == states.untyped_storage().nbytes()
    assert kept.untyped_storage().nbytes() == 3 * states.untyped_storage().nbytes()
