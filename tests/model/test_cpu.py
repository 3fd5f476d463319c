import math
import os
import platform
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from electra.model.cpu import MALLOC
from electra.model.ops import Dropout, attend, choose

SHAPE = (2, 3, 7, 5)  # B, heads, L, D


def tensors(count: int, shape=SHAPE) -> list[torch.Tensor]:
    source = torch.Generator().manual_seed(3)
    return [torch.randn(shape, generator=source, requires_grad=True) for _ in range(count)]


def gradients(output: torch.Tensor, inputs: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    weights = torch.arange(output.numel(), dtype=output.dtype).view_as(output).sin()
    return torch.autograd.grad((output * weights).sum(), inputs)


class SomeDropped(Dropout):
    """Drops what it is told to."""

    def __init__(self, noise: torch.Tensor) -> None:
        super().__init__(0.5)
        self.noise = noise

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        return hidden * self.noise


@pytest.mark.parametrize("masked", [False, True])
def test_attention_with_dropout_is_the_textbooks_with_all_gradients(masked):
    query, key, value = inputs = tensors(3)
    noise = (torch.arange(7 * 7).view(7, 7) % 3 > 0).float() * 1.5
    mask = torch.ones(7, 7, dtype=torch.bool).tril() if masked else None
    found = attend(query, key, value, mask, SomeDropped(noise).train())
    scores = query @ key.mT / math.sqrt(5)
    probabilities = (scores if mask is None else scores.masked_fill(~mask, -math.inf)).softmax(-1)
    expected = (probabilities * noise) @ value
    assert torch.allclose(found, expected, atol=1e-6)
    for ours, theirs in zip(gradients(found, inputs), gradients(expected, inputs), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_attention_drops_nothing_in_evaluation():
    query, key, value = tensors(3)
    found = attend(query, key, value, None, Dropout(0.5).eval())
    assert torch.allclose(found, F.scaled_dot_product_attention(query, key, value), atol=1e-6)


def test_dropout_of_attention_keeps_the_mean():
    query, key, value = tensors(3)
    torch.manual_seed(0)
    dropout = Dropout(0.2).train()
    mean = sum(attend(query, key, value, None, dropout).detach() for _ in range(4000)) / 4000
    expected = F.scaled_dot_product_attention(query, key, value)
    assert (mean - expected).abs().max() < 0.05


@pytest.mark.parametrize("chance", [0.1, 0.5, 0.9])
def test_dropout_drops_the_wanted_share_and_scales_the_rest(chance):
    torch.manual_seed(1)
    ones = torch.ones(1001, 999, requires_grad=True)  # no multiple of four
    dropped = Dropout(chance).train()(ones)
    kept = dropped > 0
    deviation = math.sqrt(chance * (1 - chance) / ones.numel())
    assert abs(kept.float().mean().item() - (1 - chance)) < 5 * deviation
    assert torch.allclose(dropped[kept], torch.tensor(1 / (1 - chance)), rtol=1e-4)


def test_decisions_of_dropout_are_independent():
    """Four of them come from one random number: neighbors agree as often as strangers do, in every lane."""
    torch.manual_seed(2)
    kept = (Dropout(0.5).train()(torch.ones(400_000, requires_grad=True)) > 0).view(-1, 4).float()
    assert (kept.mean(0) - 0.5).abs().max() < 5 * 0.5 / math.sqrt(len(kept))
    correlation = torch.corrcoef(kept.T).fill_diagonal_(0)
    assert correlation.abs().max() < 5 / math.sqrt(len(kept))


def test_the_gradient_of_dropout_passes_where_the_value_does():
    hidden = torch.ones(64, requires_grad=True)
    dropped = Dropout(0.5).train()(hidden)
    dropped.sum().backward()
    assert torch.equal(hidden.grad, dropped)


def test_dropout_follows_the_seed():
    hidden = torch.ones(64, requires_grad=True)
    torch.manual_seed(5)
    first = Dropout(0.5).train()(hidden)
    torch.manual_seed(5)
    assert torch.equal(first, Dropout(0.5).train()(hidden))


def test_dropout_in_evaluation_changes_nothing():
    hidden = torch.ones(64, requires_grad=True)
    assert Dropout(0.5).eval()(hidden) is hidden


def test_bf16_takes_pytorchs_own_path():
    hidden = torch.ones(64, dtype=torch.bfloat16, requires_grad=True)
    assert choose("dropout", hidden) == choose("attend", hidden) == "plain"
    torch.manual_seed(5)
    found = Dropout(0.5).train()(hidden)
    torch.manual_seed(5)
    assert torch.equal(found, F.dropout(hidden, 0.5))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only GNU's C library has these settings")
@pytest.mark.parametrize(("given", "kept"), [({}, True), ({"MALLOC_TRIM_THRESHOLD_": "131072"}, False)])
def test_freed_memory_is_kept_unless_the_environment_says_otherwise(given, kept):
    code = """
import resource
import electra.model.cpu
faults = []
for _ in range(5):
    large = [b"1" * 2**24, b"2" * 2**24]  # two, since the library keeps as much as the largest one by itself
    del large
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
print(faults[-1] - faults[1])
"""
    environment = {name: value for name, value in os.environ.items() if name not in MALLOC} | given
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert (int(shown.stdout) < 1000) is kept
