"""Parameters and FLOPs of runs: what is counted on the meta device against formulas written by hand."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from electra.config import preset_names
from electra.config.load import load_config
from electra.errors import ConfigError
from electra.objectives.build import build_objective
from electra.recipes.flops import count_flops, count_parameters, flops
from electra.recipes.paper_flops import published_totals
from electra.recipes.speed import TOKENIZER

TWO_STAGE = "algorithm=two_stage generator.width=1.0 generator.sharing=none"
OBJECTIVES = {  # overrides of objective
    "joint": "",
    "adversarial": "algorithm=adversarial",
    "two_stage": TWO_STAGE,
    "electra_15": "name=electra_15",
    "mlm": "name=mlm",
    "corrective": "name=corrective",
    "replace_mlm": "name=replace_mlm",
    "all_tokens_mlm": "name=all_tokens_mlm",
    "electric": "name=electric",
    "uniform": "generator.kind=uniform",
    "unigram": "generator.kind=unigram",
    "two_tower": "generator.kind=two_tower",
    "no_sharing": "generator.sharing=none",
    "gdes": "generator.sharing=gdes",
    "all_shared": "generator.width=1.0 generator.sharing=all",
    "two_tower_gdes": "generator.kind=two_tower generator.sharing=gdes",
}


def load(preset, objective="", *overrides):
    return load_config(preset, [*(f"objective.{key}" for key in objective.split()), *overrides])


def parameters(preset, objective=""):
    config = load(preset, objective)
    with torch.device("meta"):
        return count_parameters(
            build_objective(config.objective, config.model, TOKENIZER, torch.ones(config.model.vocab_size))
        )


def encoder(shape, length):
    """Count the matrix products of an encoder: projection, attention and feed-forward blocks."""
    h = shape.hidden_size
    if shape.body == "modern":  # local layers compute three halves of a window for each token
        seen = [
            length if shape.is_global(layer) else min(length, 3 * shape.window // 2) for layer in range(shape.layers)
        ]
        return length * sum(2 * (4 * h * h + 3 * h * shape.feed_forward_size) + 4 * keys * h for keys in seen)
    block = 2 * (4 * h * h + 2 * h * shape.feed_forward_size) + 4 * length * h
    project = 2 * shape.embedding_size * h if shape.embedding_size != h else 0
    return length * (shape.layers * block + project)


def token_head(shape, predicted, towers=1):
    """Count the logits of some tokens."""
    width = shape.hidden_size if shape.body == "modern" else shape.embedding_size
    return predicted * 2 * width * (towers * shape.hidden_size + shape.vocab_size)


def networks(config):
    """Count one sequence through the main network and through the generator."""
    model, objective, length = config.model, config.objective, config.train.length
    masked = objective.mask_fraction * length
    detector = encoder(model, length) + length * (2 * model.hidden_size**2 + 2 * model.hidden_size)
    main = {
        "mlm": encoder(model, length) + token_head(model, masked),
        "replace_mlm": encoder(model, length) + token_head(model, masked),
        "all_tokens_mlm": encoder(model, length) + token_head(model, length),
        "corrective": detector + token_head(model, masked),
    }.get(objective.name, detector)
    generator = getattr(objective, "generator", None)
    if generator is None or generator.kind in ("uniform", "unigram"):
        return main, 0.0  # nothing to multiply
    two_stage = objective.name == "electra" and objective.algorithm == "two_stage"
    shape = model if two_stage else generator.model(model)
    predicted = length if objective.name == "electric" else masked
    towers = 2 if generator.kind == "two_tower" else 1
    return main, towers * encoder(shape, length) + token_head(shape, predicted, towers)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_costs_what_its_formula_says(objective):
    """The backward pass costs twice the forward pass, except that of a generator that no longer learns."""
    config = load("small", OBJECTIVES[objective], "model.layers=1")
    found = count_flops(config.model, config.objective, config.train.length)
    main, generator = networks(config)
    assert found.forward == pytest.approx(main + generator, rel=0.002)
    learning = generator if objective == "two_stage" else 3 * generator
    assert found.train == pytest.approx(3 * main + learning, rel=0.002)


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_costs_what_the_formula_says(preset):
    config = load(preset, "", "model.layers=2")
    cost = flops(config)
    forward = sum(networks(config))
    assert cost.forward_flops == pytest.approx(forward, rel=0.002)
    assert cost.train_flops == pytest.approx(3 * forward * cost.tokens / config.train.length, rel=0.002)


@pytest.mark.parametrize("name", ["small", "base"])
def test_presets_cost_about_what_the_paper_says(name):
    """The original counts all operations and a dense lookup of embeddings, but the backward pass only once."""
    assert flops(load_config(name)).train_flops == pytest.approx(published_totals()[f"electra_{name}"], rel=0.12)


@pytest.mark.parametrize(("fraction", "length"), [(0.1, 16), (0.15, 64), (0.25, 60), (0.5, 16), (0.9, 60), (0.99, 64)])
def test_masked_tokens_are_counted_by_their_share(fraction, length):
    """Of 64 tokens 9 are masked, not 9.6: a count of one sequence would be off by more than this."""
    config = load("tiny", f"mask_fraction={fraction} prior=0.05", "model.layers=1", f"train.length={length}")
    found = count_flops(config.model, config.objective, length)
    assert found.forward == pytest.approx(sum(networks(config)), rel=0.0005)


def test_small_costs_211_mflops_a_token():
    """70.2 MFLOPs forward for the joint step of small at length 128, three times as many to train."""
    cost = flops(load_config("small"))
    main = 12 * (2 * (4 * 256**2 + 2 * 256 * 1024) + 4 * 128 * 256) + 2 * 128 * 256 + 2 * 256**2 + 2 * 256
    generator = 12 * (2 * (4 * 64**2 + 2 * 64 * 256) + 4 * 128 * 64) + 2 * 128 * 64
    head = 0.15 * (2 * 64 * 128 + 2 * 128 * 30_522)
    assert cost.train_flops / cost.tokens == pytest.approx(3 * (main + generator + head), rel=1e-6)


def test_recomputed_blocks_are_not_counted():
    plain, saving = (
        flops(load("tiny", "", "model.layers=1", f"model.activation_checkpointing={value}")).train_flops
        for value in ("false", "true")
    )
    assert saving == plain


def test_parameters_are_counted_apart_and_together():
    cost = flops(load_config("small"))
    assert cost.parameters == {
        "embeddings": 3_972_864,
        "discriminator": 13_549_057,
        "generator": 4_620_026,
        "joint": 14_196_219,
    }
    assert cost.tokens == 128 * 128 * 1_000_000


@pytest.mark.parametrize(
    ("objective", "main"),
    [("mlm", "masked-LM"), ("replace_mlm", "masked-LM"), ("all_tokens_mlm", "masked-LM"), ("electric", "energy")],
)
def test_the_main_network_is_named_by_its_head(objective, main):
    generator = [] if objective == "mlm" else ["generator"]
    assert list(parameters("tiny", f"name={objective}")) == ["embeddings", main, *generator, "joint"]


def test_a_masked_lm_is_all_that_is_trained():
    found = parameters("small", "name=mlm")
    assert found == {"embeddings": 3_972_864, "masked-LM": 13_546_682, "joint": 13_546_682}


@pytest.mark.parametrize("kind", ["uniform", "unigram"])
def test_a_generator_without_parameters_is_not_reported(kind):
    found = parameters("small", f"generator.kind={kind}")
    assert found == {"embeddings": 3_972_864, "discriminator": 13_549_057, "joint": 13_549_057}


@pytest.mark.parametrize("cheaper", ["generator.kind=uniform", "generator.width=0.125", "name=mlm"])
def test_less_generator_costs_less(cheaper):
    full, less = (flops(load("small", keys, "model.layers=1")).train_flops for keys in ("", cheaper))
    assert less < full


def test_correction_adds_the_parameters_of_its_head():
    detection, correction = (parameters("small", f"name={name}") for name in ("electra", "corrective"))
    more = (256 * 128 + 128) + 2 * 128 + 30_522  # dense, layer norm, bias; the words are shared
    assert correction == {**detection, "joint": detection["joint"] + more}


def test_two_stages_are_counted_both_and_the_second_one_without_a_backward_of_its_generator():
    apart = parameters("small", TWO_STAGE)
    assert apart["generator"] == 13_546_682
    assert apart["joint"] == apart["generator"] + apart["discriminator"]
    config = load("small", TWO_STAGE, "train.steps=1000", "model.layers=2")
    cost = flops(config)
    assert cost.tokens == 2 * 1000 * 128 * 128
    detector, masked_lm = networks(config)
    sequences = cost.tokens / 2 / 128
    assert cost.train_flops == pytest.approx((3 * masked_lm + 3 * detector + masked_lm) * sequences, rel=0.002)


def test_a_generator_that_is_rewarded_reads_its_input_once():
    joint, adversarial = (
        flops(load("small", f"algorithm={name}", "model.layers=1")) for name in ("joint", "adversarial")
    )
    baseline = 2 * 2 * 64  # a linear map to one number, and its weights' gradient: none of its input
    assert (adversarial.train_flops - joint.train_flops) / joint.tokens == pytest.approx(baseline, rel=1e-3)


def test_embeddings_of_which_a_network_learns_the_differences_count_once_where_it_stands_alone():
    shared, apart = (parameters("small", f"generator.sharing={name}") for name in ("embeddings", "gdes"))
    assert apart == {**shared, "joint": shared["joint"] + shared["embeddings"]}


def test_a_budget_in_tokens_costs_what_it_reads():
    cost = flops(load_config("small", ["train.tokens=100_000_000", "model.layers=1"]))
    assert cost.tokens == pytest.approx(1e8, rel=1e-3)


@pytest.mark.parametrize(("override", "head"), [("name=all_tokens_mlm", 128), ("algorithm=adversarial", 64)])
def test_heads_that_an_objective_has_of_its_own_are_counted(override, head):
    plain = "name=replace_mlm" if "name" in override else "algorithm=joint"
    ours, theirs = (parameters("tiny", key)["joint"] for key in (override, plain))
    assert ours - theirs == head + 1


def test_a_budget_in_hours_has_no_count():
    with pytest.raises(ConfigError, match=r"depend on the machine: set train\.steps or train\.tokens$"):
        flops(load_config("small", ["train.hours=1.0"]))


@pytest.mark.parametrize("keys", [["objective.mask_fraction=0.999"], ["train.length=4"]])
def test_nearly_all_and_nearly_no_masked_tokens_can_be_counted(keys):
    assert flops(load_config("tiny", [*keys, "model.layers=1"])).train_flops > 0


def test_counting_in_a_thread_leaves_the_gradients_of_others_alone():
    config, layer, inputs = load_config("tiny", []), torch.nn.Bilinear(2, 2, 2), torch.ones(1, 2, requires_grad=True)
    with ThreadPoolExecutor(1) as pool:
        counting = pool.submit(count_flops.__wrapped__, config.model, config.objective, 96)
        while not counting.done():
            torch.autograd.grad(layer(inputs, inputs).sum(), [inputs, layer.weight])
    assert counting.result().train > 0
