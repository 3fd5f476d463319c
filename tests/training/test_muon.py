import re

import pytest
import torch
from torch import nn

from electra.config.bodies import ElectraModel
from electra.config.load import load_config
from electra.model.bodies import build_body
from electra.model.body import Body
from electra.training.capture import Captured
from electra.training.muon import block_matrices, normalized, orthogonalized
from electra.training.optim import build_optimizer
from electra.training.streams import SideBySide

SHAPES = [(16, 16), (16, 64), (64, 16), (24, 40)]


def encoder(**shape) -> Body:
    torch.manual_seed(0)
    sizes = {"embedding_size": 8, "hidden_size": 16, "layers": 2, "heads": 2, "feed_forward_size": 64} | shape
    return build_body(ElectraModel(**sizes, vocab_size=50, max_length=12))


def optimizer_of(module, *overrides, **settings):
    keys = ["optimizer=muon", "clip_norm=1000.0", *overrides]
    return build_optimizer(module, load_config("small", [f"train.{key}" for key in keys]).train, **settings)


def gradients(module, seed):
    torch.manual_seed(seed)
    return {name: torch.randn_like(weight) for name, weight in module.named_parameters()}


def maps(name, weight):
    """Cut a weight into the maps that it holds."""
    return weight.chunk(3) if "query_key_value.weight" in name else [weight]


def update(optimizer, rate, found):
    for name, view in optimizer.weights.views(optimizer.weights.gradient).items():
        view.copy_(found[name])
    optimizer.rate.fill_(rate)
    optimizer.step()


@pytest.mark.parametrize("shape", SHAPES)
def test_singular_values_come_close_to_one(shape):
    torch.manual_seed(0)
    left, _, right = torch.linalg.svd(torch.randn(3, *shape), full_matrices=False)
    values = torch.logspace(0, -2, min(shape))  # the longest direction a hundred times as long as the shortest
    turned = orthogonalized(normalized(5e-9 * left * values @ right))
    found = (left.mT @ turned @ right.mT).diagonal(dim1=-2, dim2=-1)
    assert 0.65 < found.min() <= found.max() < 1.25
    torch.testing.assert_close(turned, left * found[:, None] @ right, rtol=0, atol=1e-4)


def test_no_gradient_turns_into_no_update():
    assert torch.equal(orthogonalized(normalized(torch.zeros(2, 4, 8))), torch.zeros(2, 4, 8))


def test_the_matrices_are_those_inside_of_the_blocks():
    module = nn.ModuleDict({"network": nn.ModuleDict({"encoder": encoder(), "head": nn.Linear(16, 8)})})
    weights = dict(module.named_parameters())
    stacked = block_matrices(module)
    found = {name: (len(weights[name]) // stacked[name], weights[name].size(1)) for name in stacked}
    assert found == {
        f"network.encoder.layers.{layer}.{name}.weight": shape
        for layer in range(2)
        for name, shape in {
            "attention.query_key_value": (16, 16),
            "attention.output": (16, 16),
            "expand": (64, 16),
            "contract": (16, 64),
        }.items()
    }


@pytest.mark.filterwarnings("ignore:mkldnn_matmul")  # a CPU without 16-bit products, in which torch's computes
@pytest.mark.parametrize(
    ("shape", "adam_rate"),
    [({}, 1.0), ({"hidden_size": 10, "feed_forward_size": 14}, 0.5)],  # the latter shape fits no alignment
)
def test_updates_are_those_of_torchs_muon_and_adamw(shape, adam_rate):
    ours = encoder(**shape)
    optimizer = optimizer_of(ours, "weight_decay=0.1", f"adam_rate={adam_rate}")
    before = {name: weight.detach().clone() for name, weight in ours.named_parameters()}
    theirs = {name: [nn.Parameter(part) for part in maps(name, weight.clone())] for name, weight in before.items()}
    names = list(block_matrices(ours))
    matrices = [part for name in names for part in theirs[name]]
    others = [
        {"params": theirs[name], "weight_decay": 0.1 * (weight.dim() > 1)}
        for name, weight in before.items()
        if name not in names
    ]
    muon = torch.optim.Muon(matrices, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW(others, lr=1e-2 * adam_rate, eps=1e-6)
    for seed in range(4):
        found = gradients(ours, seed)
        for name, parts in theirs.items():
            for part, gradient in zip(parts, maps(name, found[name]), strict=True):
                part.grad = gradient
        update(optimizer, 1e-2, found)
        muon.step()
        adamw.step()
    for name, weight in ours.named_parameters():
        moved, expected = weight - before[name], torch.cat(list(theirs[name])) - before[name]
        slack = 0.05 if name in names else 1e-4  # 16 bits, and 32
        torch.testing.assert_close(moved, expected, rtol=0, atol=slack * expected.abs().max().item())


@pytest.mark.gpu
def test_recorded_updates_of_more_groups_than_streams_are_those_of_a_cpu():
    modules = encoder(layers=3), encoder(layers=3).cuda()
    before = {name: weight.detach().clone() for name, weight in modules[0].named_parameters()}
    ours, recorded = (
        optimizer_of(module, rate=lambda name: 0.9 ** len(re.findall("[02]", name))) for module in modules
    )
    assert len(recorded.weights.groups) > SideBySide.MOST
    turned = block_matrices(modules[1])
    recorded.step = Captured(recorded.step, recorded.changes())
    for seed in range(4):
        found = gradients(modules[0], seed)
        update(ours, 1e-2, found)
        update(recorded, 1e-2, found)
    for name, weight in modules[1].named_parameters():
        moved, expected = weight.cpu() - before[name], dict(modules[0].named_parameters())[name] - before[name]
        slack = 0.05 if name in turned else 1e-3  # 16 bits, and 32
        torch.testing.assert_close(moved, expected, rtol=0, atol=slack * expected.abs().max().item(), msg=name)


def test_a_checkpoint_holds_what_the_next_update_takes():
    module = encoder()
    named = optimizer_of(module).tensors()
    weights = dict(module.named_parameters())
    turned = block_matrices(module).keys()
    assert len(turned) == 8
    assert named.keys() == {
        "updates",
        *(f"mean.{name}" for name in weights),
        *(f"square.{name}" for name in weights.keys() - turned),
    }


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_changes_nothing(bad):
    module = encoder()
    optimizer = optimizer_of(module)
    update(optimizer, 1e-2, gradients(module, 0))
    before = [weight.clone() for weight in (*module.parameters(), *optimizer.tensors().values())]
    found = gradients(module, 1)
    found["layers.0.expand.weight"][3, 4] = bad
    update(optimizer, 1e-2, found)
    after = [*module.parameters(), *optimizer.tensors().values()]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    assert optimizer.skipped.item() == 1
