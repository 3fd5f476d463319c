import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from electra.config.load import load_config
from electra.model.bodies import build_body
from electra.model.networks import Discriminator, build_networks


@pytest.fixture(scope="module")
def small():
    torch.manual_seed(0)
    config = load_config("small")
    encoder, generator = build_networks(config.model, config.objective.generator)
    return SimpleNamespace(discriminator=Discriminator(encoder), generator=generator)


@pytest.fixture
def encoder(tiny_model):
    return tiny_model.encoder


def random_ids(*shape: int) -> torch.Tensor:
    return torch.randint(5, 40, shape, generator=torch.Generator().manual_seed(3))


def test_weights_start_from_a_truncated_normal(small):
    encoder = small.discriminator.encoder
    for weight in (
        encoder.embeddings.words.weight,
        encoder.layers[3].expand.weight,
        small.discriminator.head.dense.weight,
    ):
        assert weight.std().item() == pytest.approx(0.02 * 0.879626, rel=0.01)
        assert weight.abs().max().item() <= 0.04
        assert abs(weight.mean().item()) < 3e-4


@pytest.mark.parametrize(
    ("part", "limit"),
    [("discriminator project", 0.125), ("generator project", 0.176777), ("discriminator score", 0.152795)],
)
def test_projections_and_the_last_score_start_glorot_uniform(small, part, limit):
    weight = {
        "discriminator project": small.discriminator.encoder.project,
        "generator project": small.generator.encoder.project,
        "discriminator score": small.discriminator.head.score,
    }[part].weight
    assert weight.abs().max().item() <= limit + 1e-6
    assert weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.08)


def test_biases_start_at_zero_and_norms_at_one(small):
    for network in (small.discriminator, small.generator):
        for module in network.modules():
            if isinstance(module, nn.Linear):
                assert not module.bias.any()
            if isinstance(module, nn.LayerNorm):
                assert bool((module.weight == 1).all())
                assert not module.bias.any()
    assert not small.generator.head.bias.any()


def test_losses_at_the_start_are_those_of_guessing(small):
    """About ln V for the generator and ln 2 for the discriminator, the latter spread by its Glorot head."""
    ids = torch.randint(1000, 30_000, (8, 128), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        logits = small.generator(ids, None, None, torch.arange(19).expand(8, -1)).logits
        masked_lm = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, :19].flatten()).item()
        scores = small.discriminator(ids).scores
        labels = (torch.rand(scores.shape, generator=torch.Generator().manual_seed(0)) < 0.15).float()
        replaced = nn.functional.binary_cross_entropy_with_logits(scores, labels).item()
    assert masked_lm == pytest.approx(math.log(30_522), abs=0.05)
    assert replaced == pytest.approx(math.log(2), abs=0.1)


def test_a_text_without_segments_is_all_first_segment(encoder):
    ids = random_ids(2, 6)
    weights = [encoder.embeddings.types.weight, encoder.embeddings.positions.weight]
    without, first, second = (
        torch.autograd.grad(encoder.embeddings(ids, types).square().sum(), weights)
        for types in (None, torch.zeros_like(ids), torch.ones_like(ids))
    )
    for ours, theirs in zip(without, first, strict=True):
        torch.testing.assert_close(ours, theirs)
    assert not without[0][1].any()
    assert second[0][1].any()


def test_padding_changes_nothing(encoder):
    ids = random_ids(2, 7)
    padded = torch.cat([ids, torch.zeros(2, 5, dtype=torch.long)], dim=1)
    attention = (torch.arange(12) < 7).long().expand(2, -1)
    torch.testing.assert_close(encoder(padded, attention)[:, :7], encoder(ids), rtol=1e-5, atol=1e-5)


def test_a_sequence_of_padding_alone_gives_no_nan(encoder):
    assert torch.isfinite(encoder(torch.zeros(1, 6, dtype=torch.long), torch.zeros(1, 6, dtype=torch.long))).all()


def test_texts_packed_into_one_sequence_do_not_see_each_other(encoder):
    ids = random_ids(1, 10)
    other = ids.clone()
    other[:, 6:] = random_ids(1, 20)[:, 16:]
    assert not torch.equal(ids, other)
    numbers = torch.tensor([[1] * 6 + [2] * 4])
    torch.testing.assert_close(encoder(ids, numbers)[:, :6], encoder(other, numbers)[:, :6])
    assert not torch.allclose(encoder(ids)[:, :6], encoder(other)[:, :6])


@pytest.mark.parametrize(("direction", "seen"), [("forward", slice(0, 5)), ("backward", slice(5, 10))])
def test_a_one_way_encoder_does_not_see_the_other_side(tiny_config, direction, seen):
    torch.manual_seed(0)
    encoder = build_body(tiny_config.model, direction=direction).eval()
    ids = random_ids(1, 10)
    changed = ids.clone()
    unseen = slice(5, 10) if direction == "forward" else slice(0, 5)
    changed[:, unseen] = changed[:, unseen].flip(1) + 1
    torch.testing.assert_close(encoder(ids)[:, seen], encoder(changed)[:, seen])
    assert not torch.allclose(encoder(ids)[:, unseen], encoder(changed)[:, unseen])


def test_activation_checkpointing_gives_the_same_gradients(tiny_config):
    gradients = []
    for checkpointing in (False, True):
        torch.manual_seed(0)
        encoder = build_body(tiny_config.model.model_copy(update={"activation_checkpointing": checkpointing})).train()
        torch.manual_seed(1)
        encoder(random_ids(2, 8)).square().sum().backward()
        gradients.append(encoder.layers[0].expand.weight.grad)
    torch.testing.assert_close(*gradients)


def test_dropout_is_active_in_training_alone(encoder):
    ids = random_ids(1, 8)
    torch.testing.assert_close(encoder(ids), encoder(ids))
    encoder.train()
    try:
        assert not torch.allclose(encoder(ids), encoder(ids))
    finally:
        encoder.eval()


@pytest.mark.parametrize(("heads", "fits"), [(1, False), (2, True), (16, True), (32, False)])
def test_the_kernels_take_heads_that_fit_on_the_chip(heads, fits):
    config = load_config("small", [f"model.heads={heads}"]).model
    with torch.device("meta"):
        assert build_body(config)._fits_stack(torch.empty(2, 128, 256)) == fits
        assert not build_body(config)._fits_stack(torch.empty(2**21, 128, 256))  # more numbers than 32 bits count
