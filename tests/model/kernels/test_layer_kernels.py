"""The kernels of a Transformer block, forward and backward, against the reference."""

import pytest
import torch

from electra.model.body import bounds_of
from electra.model.kernels import SHORT, attention, gelu, long_attention, norm
from electra.model.kernels.attention import Drop, Sight

from . import plain


def floats(*tensors):
    return [tensor.float() for tensor in tensors]


def details(*tensors):
    return [tensor.detach().clone() for tensor in tensors]


@pytest.mark.parametrize(("tokens", "hidden", "chance"), [(37, 48, 0.1), (64, 64, 0.0), (5, 256, 0.3), (40, 768, 0.1)])
def test_add_and_norm_equals_the_reference(normal, seeds, agree, tokens, hidden, chance):
    branch, residual, gradient = (normal(tokens, hidden) for _ in range(3))
    bias, gain, shift = (normal(hidden) for _ in range(3))
    expected = plain.add_and_norm(*floats(branch, bias, residual, gain, shift), seeds, chance, 1e-12)
    to_all = torch.autograd.grad(expected, [residual, branch, gain, shift, bias], gradient.float())
    added, b, r, g, s = details(branch, bias, residual, gain, shift)
    out, to_branch = torch.empty_like(added), torch.empty_like(added)
    moments = torch.empty(2, tokens, device=added.device)
    norm.add_and_norm(added, r, g, 1e-12, added, out, moments, b, s, seeds, chance)
    agree([out], [expected])
    partial = moments.new_empty(norm.backward_programs(tokens, hidden, added.device), 3 * hidden)
    to_residual, d = torch.empty_like(added), gradient.detach()
    norm.add_and_norm_backward(d, None, added, g, moments, to_residual, partial, to_branch, seeds, chance)
    agree([to_residual, to_branch, *partial.sum(0).view(3, hidden)], to_all)


@pytest.mark.parametrize("chance", [0.0, 0.1])
def test_normalize_equals_the_reference(normal, seeds, agree, chance):
    added, gradient = normal(3, 17, 64), normal(3, 17, 64)
    last = torch.nn.LayerNorm(64, eps=1e-12, device=added.device, dtype=added.dtype)
    with torch.no_grad():
        last.weight.copy_(normal(64))
        last.bias.copy_(normal(64))
    weights = [added, last.weight, last.bias]
    expected = plain.normalize(*floats(*weights), seeds, chance, 1e-12)
    found = norm.normalize(added, last, seeds, chance)
    agree([found], [expected])
    agree(torch.autograd.grad(found, weights, gradient), torch.autograd.grad(expected, weights, gradient.float()))


@pytest.mark.parametrize(("tokens", "width"), [(37, 48), (9, 1024), (3, 4096)])
def test_gelu_equals_the_reference(normal, agree, tokens, width):
    x, bias, gradient = normal(tokens, width), normal(width), normal(tokens, width)
    expected = plain.bias_gelu(*floats(x * 3, bias))
    to_all = torch.autograd.grad(expected, [x, bias], gradient.float())
    wide, b, d = details(x * 3, bias, gradient)
    active = torch.empty_like(wide)
    gelu.bias_gelu(wide, b, active)
    agree([active], [expected])
    partial = torch.empty(gelu.backward_programs(tokens, width, x.device), width, device=x.device)
    gelu.bias_gelu_backward(d, wide, b, partial)
    agree([d * 3, partial.sum(0)], to_all)


@pytest.mark.parametrize(
    ("kernels", "length", "heads", "size", "chance", "layout", "reach"),
    [
        (attention, 17, 3, 16, 0.1, "mixed", 0),
        (attention, 32, 2, 32, 0.0, "full", 0),
        (attention, 40, 1, 16, 0.1, "full", 7),
        (attention, SHORT, 1, 64, 0.2, "mixed", 20),
        (long_attention, 130, 1, 16, 0.1, "mixed", 0),
        (long_attention, 192, 2, 32, 0.0, "full", 0),
        (long_attention, 200, 1, 64, 0.1, "padded", 0),  # some queries see no key of a block
        (long_attention, 140, 1, 16, 0.1, "mixed", 20),
    ],
)
def test_attention_is_correct(normal, seeds, agree, dtype, device, kernels, length, heads, size, chance, layout, reach):
    if dtype == torch.bfloat16 and device.type == "cpu":
        pytest.skip("the interpreter computes bf16 matrix products incorrectly")
    if dtype == torch.float32 and device.type == "cuda":
        pytest.skip("exact float32 products take minutes to compile and are not used on a GPU")
    projected, gradient = normal(2, length, 3 * heads * size), normal(2, length, heads * size)
    source = torch.Generator().manual_seed(0)
    texts = {
        "mixed": torch.randint(0, 3, (2, length), generator=source).sort().values.to(device),
        "padded": (torch.arange(length, device=device) < length // 4).long().expand(2, -1).contiguous(),
        "full": None,
    }[layout]
    expected = plain.attend(projected.float(), heads, texts, seeds, chance, reach)
    (to_projected,) = torch.autograd.grad(expected, [projected], gradient.float())
    states, d = details(projected, gradient)
    out, log_sum = torch.empty_like(d), torch.empty(2 * heads * length, device=device)
    sight, drop = Sight(None if texts is None else bounds_of(texts), reach), Drop(chance, seeds)
    kernels.attend(states, heads, sight, drop, out, log_sum)
    agree([out], [expected])
    found = torch.empty_like(states)
    partial = log_sum.new_empty(kernels.backward_programs(2, length), states.size(2))
    kernels.attend_backward(d, states, out, log_sum, heads, sight, drop, found, partial)
    agree([found, partial.sum(0)], [to_projected, to_projected.float().sum((0, 1))])
