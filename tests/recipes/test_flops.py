import pytest

from electra.config.load import load_config
from electra.model.flops import published_totals
from electra.recipes.flops import flops


@pytest.mark.parametrize(
    ("preset", "overrides", "published"),
    [
        ("small", [], "electra_small"),
        ("base", [], "electra_base"),
        ("large", [], "electra_400k"),
        ("large", ["train.steps=1_750_000"], "electra_1.75M"),
        ("small", ["objective.name=mlm", "train.steps=1_450_000"], "bert_small"),
        ("base", ["objective.name=mlm", "train.steps=1_000_000"], "bert_base"),
    ],
)
def test_presets_cost_what_the_paper_says(preset, overrides, published):
    assert flops(load_config(preset, overrides)).train_flops["paper"] == published_totals()[published]


def test_parameters_are_counted_apart_and_together():
    cost = flops(load_config("small"))
    assert cost.parameters == {
        "embeddings": 3_972_864,
        "discriminator": 13_549_057,
        "generator": 4_620_026,
        "joint": 14_196_219,
    }
    assert cost.tokens == 128 * 128 * 1_000_000


def test_the_standard_convention_is_matrix_products_times_three():
    """70.2 MFLOPs a token for the joint step of small at length 128, 15 % of the positions predicted."""
    cost = flops(load_config("small"))
    encoder = 12 * (2 * (4 * 256**2 + 2 * 256 * 1024) + 4 * 128 * 256) + 2 * 128 * 256 + 2 * 256**2 + 2 * 256
    generator = 12 * (2 * (4 * 64**2 + 2 * 64 * 256) + 4 * 128 * 64) + 2 * 128 * 64
    head = 0.15 * (2 * 64 * 128 + 2 * 128 * 30_522)
    assert cost.train_flops["standard"] == pytest.approx(3 * (encoder + generator + head) * cost.tokens)


@pytest.mark.parametrize(
    "cheaper", [["objective.generator.kind=uniform"], ["objective.generator.width=0.125"], ["objective.name=mlm"]]
)
def test_less_generator_costs_less(cheaper):
    full, less = flops(load_config("small")), flops(load_config("small", cheaper))
    for convention in ("paper", "standard"):
        assert less.train_flops[convention] < full.train_flops[convention]


ENCODER = 12 * (2 * (4 * 256**2 + 2 * 256 * 1024) + 4 * 128 * 256) + 2 * 128 * 256  # of small, a token
DETECTOR = 2 * 256**2 + 2 * 256


def test_correction_costs_a_prediction_of_the_masked_tokens_by_the_discriminator():
    detection, correction = (
        flops(load_config("small", [f"objective.name={name}"])) for name in ("electra", "corrective")
    )
    head = 0.15 * (2 * 256 * 128 + 2 * 128 * 30_522)
    found = correction.train_flops["standard"] - detection.train_flops["standard"]
    assert found == pytest.approx(3 * head * detection.tokens)
    more = (256 * 128 + 128) + 2 * 128 + 30_522  # dense, layer norm, bias; the words are shared
    assert correction.parameters == {**detection.parameters, "joint": detection.parameters["joint"] + more}


@pytest.mark.parametrize(("objective", "share"), [("electra", 0.15), ("electric", 1.0)])
def test_two_towers_predict_the_masked_tokens_and_all_in_electric(objective, share):
    keys = [f"objective.name={objective}", "objective.generator.kind=two_tower"]
    cost = flops(load_config("small", keys))
    tower = 12 * (2 * (4 * 64**2 + 2 * 64 * 256) + 4 * 128 * 64) + 2 * 128 * 64
    head = share * (2 * 128 * 128 + 2 * 128 * 30_522)
    assert cost.train_flops["standard"] == pytest.approx(3 * (ENCODER + DETECTOR + 2 * tower + head) * cost.tokens)


def test_two_stages_are_counted_both_and_the_second_one_without_a_backward_of_its_generator():
    keys = ["algorithm=two_stage", "generator.width=1.0", "generator.sharing=none"]
    config = load_config("small", [*(f"objective.{key}" for key in keys), "train.steps=1000"])
    cost = flops(config)
    assert cost.parameters["generator"] == 13_546_682
    assert cost.parameters["joint"] == cost.parameters["generator"] + cost.parameters["discriminator"]
    masked_lm = ENCODER + 0.15 * (2 * 256 * 128 + 2 * 128 * 30_522)
    assert cost.tokens == 2 * 1000 * 128 * 128
    each = 3 * masked_lm + 3 * (ENCODER + DETECTOR) + masked_lm
    assert cost.train_flops["standard"] == pytest.approx(each * cost.tokens / 2)


def test_a_generator_that_is_rewarded_reads_its_input_twice():
    joint, adversarial = (
        flops(load_config("small", [f"objective.algorithm={name}"])) for name in ("joint", "adversarial")
    )
    tower = 12 * (2 * (4 * 64**2 + 2 * 64 * 256) + 4 * 128 * 64) + 2 * 128 * 64
    found = adversarial.train_flops["standard"] - joint.train_flops["standard"]
    assert found == pytest.approx(tower * joint.tokens)


def test_a_generator_that_shares_all_costs_what_the_discriminators_encoder_costs():
    keys = ["objective.generator.sharing=all", "objective.generator.width=1.0", "model.feed_forward_size=512"]
    cost = flops(load_config("small", keys))
    encoder = 12 * (2 * (4 * 256**2 + 2 * 256 * 512) + 4 * 128 * 256) + 2 * 128 * 256
    head = 0.15 * (2 * 256 * 128 + 2 * 128 * 30_522)
    assert cost.train_flops["standard"] == pytest.approx(3 * (2 * encoder + head + DETECTOR) * cost.tokens)


def test_embeddings_of_which_a_network_learns_the_differences_count_once_where_it_stands_alone():
    shared, apart = (
        flops(load_config("small", [f"objective.generator.sharing={name}"])).parameters
        for name in ("embeddings", "gdes")
    )
    assert apart == {**shared, "joint": shared["joint"] + shared["embeddings"]}


def test_batches_that_grow_cost_what_they_hold():
    ramp = ["train.start_batch_size=32", "train.batch_warmup_steps=10_000"]
    for keys in ([], ramp):
        assert flops(load_config("small", ["train.tokens=100_000_000", *keys])).tokens == pytest.approx(1e8, rel=1e-3)


@pytest.mark.parametrize(
    ("override", "head"), [("objective.name=all_tokens_mlm", 128), ("objective.algorithm=adversarial", 64)]
)
def test_heads_that_an_objective_has_of_its_own_are_counted(override, head):
    plain = "objective.name=replace_mlm" if "name" in override else "objective.algorithm=joint"
    ours, theirs = (flops(load_config("tiny", [key])).parameters["joint"] for key in (override, plain))
    assert ours - theirs == head + 1
