"""Weight gradients of several layers at once."""

import pytest
import torch

from electra.model.kernels import products
from electra.model.kernels.products import count_parts, weight_gradients


@pytest.mark.parametrize("processors", [1, 1000])  # tokens in one part, or in eight
def test_weight_gradients_do_not_depend_on_the_number_of_parts(normal, agree, dtype, monkeypatch, processors):
    to_outputs, inputs = normal(3, 512, 24).detach(), normal(3, 512, 16).detach()
    monkeypatch.setattr(products, "processors", lambda device: processors)
    monkeypatch.setattr(products, "SHORTEST", 64)
    found = weight_gradients(to_outputs, inputs)
    assert found.dtype == dtype
    agree([found], [torch.einsum("lto,lti->loi", to_outputs.float(), inputs.float())])


@pytest.mark.parametrize(
    ("tiles", "tokens", "parts"),
    [
        (12 * 16, 16_384, 1),  # 12 layers that map 256 to 1,024 numbers: enough tiles without parts
        (12 * 1, 16_384, 16),  # 64 to 64 numbers
        (12 * 36, 65_536, 1),  # 768 to 768 numbers
        (12 * 1, 48 * 17, 2),  # parts have at least 256 tokens
        (12 * 1, 6 * 1023, 2),  # tokens not divisible by 4
        (12 * 1, 17 * 121, 1),  # an odd number of tokens
    ],
)
def test_tokens_are_split_until_every_multiprocessor_has_work(tiles, tokens, parts):
    assert count_parts(tiles, tokens, processors=132) == parts
