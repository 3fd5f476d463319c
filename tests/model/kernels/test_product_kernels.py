"""Gradients of weights and sums of partial sums, for several layers at once."""

import pytest
import torch

from electra.model.kernels import products
from electra.model.kernels.launch import sum_rows
from electra.model.kernels.products import count_parts, weight_gradients


@pytest.mark.parametrize(("layers", "rows", "width"), [(1, 5, 40), (3, 300, 17), (2, 1, 3000)])
def test_each_layer_is_summed_by_itself(device, dtype, agree, layers, rows, width):
    partial = torch.randn(layers, rows, width, generator=torch.Generator().manual_seed(0)).to(device)
    total = sum_rows(partial, dtype)
    assert total.dtype == dtype
    agree([total], [partial.sum(1)])


@pytest.mark.parametrize("processors", [1, 1000])  # tokens are left whole, or cut in eight
def test_gradients_of_weights_are_the_same_in_parts(normal, agree, dtype, monkeypatch, processors):
    to_outputs, inputs = normal(3, 512, 24).detach(), normal(3, 512, 16).detach()
    monkeypatch.setattr(products, "processors", lambda device: processors)
    monkeypatch.setattr(products, "SHORTEST", 64)
    found = weight_gradients(to_outputs, inputs)
    assert found.dtype == dtype
    agree([found], [torch.einsum("lto,lti->loi", to_outputs.float(), inputs.float())])


@pytest.mark.parametrize(
    ("tiles", "tokens", "parts"),
    [
        (12 * 16, 16_384, 1),  # a map from 256 to 1,024 numbers, in 12 layers: enough tiles as it is
        (12 * 1, 16_384, 16),  # a square map of 64 numbers
        (12 * 36, 65_536, 1),  # a square map of 768 numbers
        (12 * 1, 48 * 17, 2),  # no part of less than 256 tokens
        (12 * 1, 6 * 1023, 2),  # no power of two beyond
        (12 * 1, 17 * 121, 1),  # nor any
    ],
)
def test_tokens_are_cut_until_every_processor_has_work(tiles, tokens, parts):
    assert count_parts(tiles, tokens, processors=132) == parts
