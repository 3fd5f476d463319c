"""Parameter counts of the original, exactly."""

import pytest
import torch
from torch import nn

from electra.config.load import load_config
from electra.model.bodies import build_body
from electra.model.huggingface import file_names
from electra.model.networks import Discriminator, MaskedLM, TwoTower, Unigram, build_networks
from electra.tasks.answering.head import QuestionAnsweringHead
from electra.tasks.texts.head import ClassificationHead

DEBUG = ["model.hidden_size=144", "model.feed_forward_size=576", "model.layers=3"]
MODELS = {"small": ("small", []), "base": ("base", []), "large": ("large", []), "debug": ("small", DEBUG)}


def build(preset: str, overrides: list[str]) -> tuple[Discriminator, nn.Module]:
    config = load_config(preset, overrides)
    with torch.device("meta"):
        encoder, generator = build_networks(config.model, config.objective.generator)
        return Discriminator(encoder), generator


def count(*modules: nn.Module) -> int:
    return sum(parameter.numel() for parameter in nn.ModuleList(modules).parameters())


@pytest.mark.parametrize(
    ("model", "embeddings", "encoder", "head", "total"),
    [
        ("small", 3_972_864, 9_510_144, 66_049, 13_549_057),
        ("base", 23_837_184, 85_054_464, 591_361, 109_483_009),
        ("large", 31_782_912, 302_309_376, 1_050_625, 335_142_913),
        ("debug", 3_972_864, 770_688, 21_025, 4_764_577),
    ],
)
def test_discriminator_has_the_originals_parameters(model, embeddings, encoder, head, total):
    discriminator, _ = build(*MODELS[model])
    assert count(discriminator.encoder.embeddings) == embeddings
    assert count(discriminator.encoder.project, discriminator.encoder.layers) == encoder
    assert count(discriminator.head) == head
    assert count(discriminator) == total


@pytest.mark.parametrize(
    ("model", "encoder", "head", "alone", "joint"),
    [
        ("small", 608_064, 39_098, 4_620_026, 14_196_219),
        ("base", 9_673_984, 229_434, 33_740_602, 119_386_427),
        ("large", 19_216_640, 295_738, 51_295_290, 354_655_291),
        ("debug", 52_704, 35_514, 4_061_082, 4_852_795),
    ],
)
def test_generator_has_the_originals_parameters(model, encoder, head, alone, joint):
    discriminator, generator = build(*MODELS[model])
    assert count(generator.encoder.project, generator.encoder.layers) == encoder
    assert count(generator.head) == head
    assert count(generator) == alone
    assert count(discriminator, generator) == joint


@pytest.mark.parametrize(
    ("preset", "overrides", "joint"),
    [
        ("small-plus", [], 23_122_875),
        ("small", ["objective.generator.sharing=none"], 16_170_107),
        ("small", ["objective.generator.width=1.0", "objective.generator.sharing=all"], 13_612_731),
        ("small", ["objective.generator.kind=uniform"], 13_549_057),
        ("small", ["objective.generator.kind=two_tower"], 14_812_475),
        ("small", ["objective.name=electric"], 14_812_475),
        ("base", ["objective.generator.width=0.25"], 115_149_307),
    ],
)
def test_variants_have_the_originals_parameters(preset, overrides, joint):
    discriminator, generator = build(preset, overrides)
    assert count(discriminator, generator) == joint


@pytest.mark.parametrize(
    ("preset", "parameters"), [("small", 13_546_682), ("base", 109_514_298), ("large", 335_174_458)]
)
def test_the_bert_baseline_has_the_originals_parameters(preset, parameters):
    with torch.device("meta"):
        assert count(MaskedLM(build_body(load_config(preset).model))) == parameters


@pytest.mark.parametrize(
    ("model", "exempt"), [("small", 81_659), ("base", 195_131), ("large", 436_283), ("debug", 38_507)]
)
def test_biases_and_norms_are_the_vectors(model, exempt):
    """What the original exempts from weight decay by name is exactly the parameters of one dimension."""
    discriminator, generator = build(*MODELS[model])
    parameters = nn.ModuleList([discriminator, generator]).parameters()
    assert sum(parameter.numel() for parameter in parameters if parameter.dim() == 1) == exempt


@pytest.mark.parametrize(("model", "tensors"), [("small", 402), ("base", 400), ("large", 784), ("debug", 114)])
def test_the_number_of_variables_is_the_originals(model, tensors):
    discriminator, generator = build(*MODELS[model])
    names = [name for network in (discriminator, generator) for part in file_names(network) for name in part]
    shared = len(list(discriminator.encoder.embeddings.parameters()))
    assert len(names) - shared == tensors


@pytest.mark.parametrize(
    ("preset", "answering", "three_classes", "regression"),
    [("small", 526_595, 771, 257), ("base", 1_575_683, 2307, 769), ("large", 2_100_227, 3075, 1025)],
)
def test_fine_tuning_heads_have_the_originals_parameters(preset, answering, three_classes, regression):
    config = load_config(preset).model
    assert count(QuestionAnsweringHead(config)) == answering
    assert count(ClassificationHead(config, 3)) == three_classes
    assert count(ClassificationHead(config, 1)) == regression


def test_shared_embeddings_are_one_module():
    discriminator, generator = build("small", [])
    assert generator.encoder.embeddings is discriminator.encoder.embeddings


def test_sharing_all_shares_the_whole_encoder():
    discriminator, generator = build("small-plus", ["objective.generator.sharing=all"])
    assert generator.encoder is discriminator.encoder


def test_sharing_nothing_shares_no_parameter():
    discriminator, generator = build("small", ["objective.generator.sharing=none"])
    ours = {id(parameter) for parameter in discriminator.parameters()}
    assert not any(id(parameter) in ours for parameter in generator.parameters())
    assert generator.encoder.config.embedding_size == 64


def test_the_uniform_generator_finds_every_token_equally_likely(tiny_config):
    logits = Unigram(torch.ones(tiny_config.model.vocab_size))(
        torch.zeros(2, 8, dtype=torch.long), None, None, torch.zeros(2, 3).long()
    ).logits
    assert logits.shape == (2, 3, tiny_config.model.vocab_size)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor([1, 2, 3, 4, 5, 6]))
    assert loss.item() == pytest.approx(torch.tensor(tiny_config.model.vocab_size).log().item())


def test_generator_logits_are_those_of_the_chosen_positions(tiny_model):
    generator = tiny_model.generator
    ids = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(1))
    everywhere = generator(ids, None, None, torch.arange(9).expand(2, -1)).logits
    chosen = generator(ids, None, None, torch.tensor([[7, 2], [0, 0]])).logits
    torch.testing.assert_close(chosen[0, 0], everywhere[0, 7])
    torch.testing.assert_close(chosen[1, 1], everywhere[1, 0])


def test_discriminator_scores_every_token(tiny_model):
    assert isinstance(tiny_model.network, Discriminator)
    assert tiny_model.network(torch.ones(3, 5, dtype=torch.long)).scores.shape == (3, 5)


@pytest.mark.parametrize("network", ["generator", "two towers"])
def test_without_positions_every_token_is_predicted(tiny_model, tiny_config, network):
    torch.manual_seed(0)
    predictor = tiny_model.generator if network == "generator" else TwoTower(tiny_config.model).eval()
    ids = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(1))
    everywhere = predictor(ids, None, None, torch.arange(9).expand(2, -1))
    assert torch.equal(predictor(ids, None, None).logits, everywhere.logits)


@pytest.mark.parametrize("position", [0, 4, 8])  # a row that is cut to a start length ends in any token
def test_two_towers_predict_no_token_from_itself_and_each_from_all_others(tiny_config, position):
    torch.manual_seed(0)
    generator = TwoTower(tiny_config.model).eval()
    ids = torch.randint(5, 40, (1, 9))
    before = generator(ids, None, None).logits
    changed = ids.clone()
    changed[0, position] += 1
    moved = (generator(changed, None, None).logits - before).abs().amax(-1)[0] > 1e-6
    assert moved.tolist() == [place != position for place in range(9)]
