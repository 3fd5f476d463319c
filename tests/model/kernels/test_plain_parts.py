"""The parts of the fused stacks that `runs/bench_kernels.py` exchanges for plain PyTorch, against the kernels."""

import bench_kernels
import bench_plain
import pytest
import torch

from electra.config.bodies import ElectraModel, ModernModel
from electra.model.bodies import build_body

SIZES = {"hidden_size": 32, "layers": 2, "heads": 2, "feed_forward_size": 48, "vocab_size": 50}
CONFIGS = {
    "pre_norm_stack": ModernModel(**SIZES, window=16, global_every=2),
    "post_norm_stack": ElectraModel(**SIZES, embedding_size=32, dropout=0.0, attention_dropout=0.0),
}
PARTS = [(stack, part) for stack, parts in bench_plain.PARTS.items() for part in parts]


def body_of(config, device):
    torch.manual_seed(0)
    body = build_body(config)
    for weight in body.parameters():
        weight.data += 0.05 * torch.randn_like(weight)
    return body.to(device, torch.float32 if device.type == "cpu" else torch.bfloat16)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(("stack", "part"), PARTS)
def test_a_part_in_plain_pytorch_computes_what_the_kernel_does(stack, part, packed, device):
    body = body_of(CONFIGS[stack], device)
    ids = torch.randint(SIZES["vocab_size"], (2, 45), device=device)
    texts = 1 + (torch.arange(45, device=device) >= 20).long().expand(2, -1) if packed else None
    gradient = torch.randn(2, 45, 32, device=device).to(next(body.parameters()).dtype)
    called = []

    def counted(function):
        return lambda *inputs: (called.append(function), function(*inputs))[1]

    def run(changes):
        with bench_kernels.exchanged([(table, name, counted(value)) for table, name, value in changes]):
            hidden = body(ids, texts)
            return [hidden, *torch.autograd.grad(hidden, list(body.parameters()), gradient, allow_unused=True)]

    expected, found = run([]), run(bench_plain.PARTS[stack][part])
    assert called
    bound = 1e-4 if device.type == "cpu" else 0.05
    for ours, theirs in zip(found, expected, strict=True):
        if theirs is not None:
            size = max(1.0, theirs.abs().max().item())
            torch.testing.assert_close(ours, theirs, rtol=0, atol=bound * size)
    assert not bench_plain._seen


@pytest.mark.parametrize("part", ["attention", "dropout, sum and norm"])
def test_the_gradient_belongs_to_the_numbers_that_were_dropped(part, device):
    if device.type == "cuda":
        pytest.skip("differences of losses need float32")
    config = CONFIGS["post_norm_stack"].model_copy(update={"dropout": 0.3, "attention_dropout": 0.3})
    body = body_of(config, device)
    ids = torch.randint(SIZES["vocab_size"], (2, 12))
    weight, direction = body.layers[0].attention.query_key_value.weight, torch.randn(96, 32)

    def loss(step):
        torch.manual_seed(0)
        with torch.no_grad():
            weight.add_(step * direction)
        return body(ids).sin().sum()

    with bench_kernels.exchanged(bench_plain.PARTS["post_norm_stack"][part]):
        (slope,) = torch.autograd.grad(loss(0), weight)
        with torch.no_grad():
            ahead, behind = loss(1e-3), loss(-2e-3)
    torch.testing.assert_close((slope * direction).sum(), (ahead - behind) / 2e-3, rtol=0.02, atol=0.02)
