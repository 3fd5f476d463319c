"""Verdicts and warnings: by expected curves, with advice that the run does not follow yet."""

import pytest

from electra.config.load import load_config
from electra.objectives.expected import expected_band
from electra.recipes.verdict import doctor

SHORT_FIRST = ["train.start_length=16", "train.length_warmup_steps=100"]
FOLLOWED = [*SHORT_FIRST, "embeddings=cooccurrence"]


def of(preset: str, *overrides: str):
    return doctor(load_config(preset, overrides))


def measured(auc: float, tokens: float, progress: float = 1.0) -> dict[str, float]:
    return {
        "step": int(tokens) // 128**2,
        "tokens": int(tokens),
        "progress": progress,
        "heldout_discriminator_auc": auc,
    }


@pytest.mark.parametrize(
    ("auc", "tokens", "learned", "sentence"),
    [
        (0.52, 1e5, "nothing", "Learned nothing: AUC 0.52 after 0.1 M tokens, where runs of this size reach "),
        (0.52, 1e9, "nothing", "Learned nothing: AUC 0.52 after 1 G tokens, where runs of this size reach "),
        (0.99, 1e5, "little", "Too short to have learned much: AUC 0.99 after 0.1 M tokens, where runs of this size "),
        (0.62, 1e9, "little", "Learned little: AUC 0.62 after 1 G tokens, where runs of this size reach 0."),
        (0.85, 1e9, "enough", "Learned as expected: AUC 0.85 after 1 G tokens, where runs of this size reach 0."),
        (0.99, 1e9, "enough", "Learned well: AUC 0.99 after 1 G tokens, where runs of this size reach 0."),
    ],
)
def test_a_verdict_compares_with_healthy_runs(auc, tokens, learned, sentence):
    verdict = of("quick").verdict(measured(auc, tokens))
    assert verdict.learned == learned
    assert verdict.sentence.startswith(sentence)
    assert ("by now" in verdict.sentence) == (tokens == 1e9)


def test_without_similar_runs_only_guessing_is_told_apart():
    assert of("base").band is None
    assert of("base").verdict(measured(0.8, 1e8)).sentence == "Reached: AUC 0.80 after 100 M tokens"
    assert of("base").verdict(measured(0.5, 1e8)).learned == "nothing"
    assert of("quick", "init=runs/other").band is None  # it has learned before
    assert of("quick").verdict({"step": 0, "tokens": 0}) is None


def test_rarity_betrays_random_tokens():
    record = measured(0.84, 1e6)
    assert of("tiny", "objective.generator.kind=uniform").verdict(record).learned == "nothing"
    assert of("tiny").verdict(record).learned == "enough"


def test_a_masked_lm_is_judged_by_the_hidden_tokens_it_predicts():
    record = {"tokens": 10**8, "heldout_mlm_hidden_accuracy": 0.12}
    verdict = of("quick", "objective.name=mlm").verdict(record)
    assert verdict.sentence.startswith("Learned little: 12% of the hidden tokens predicted after 100 M tokens")


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (["init=runs/other"], "train longer"),
        ([], "try embeddings=cooccurrence"),
        (["embeddings=cooccurrence"], "try train.start_length=16 train.length_warmup_steps=1000"),
        (FOLLOWED, "try model.dropout=0.0 model.attention_dropout=0.0"),
        ([*FOLLOWED, "model.dropout=0.0", "model.attention_dropout=0.0"], "try objective.prior=0.13"),
        ([*FOLLOWED, "model.dropout=0.0", "model.attention_dropout=0.0", "objective.prior=0.13"], "try train.learning"),
    ],
)
def test_advice_is_not_what_the_run_does_already(settings, advice):
    (warning,) = of("small", *settings).diagnose(measured(0.5, 5e8))
    assert warning.startswith("the run is behind: learned nothing")
    assert warning.partition("; ")[2].startswith(advice)


def test_advised_short_sequences_end_after_a_tenth_of_a_short_run():
    record = measured(0.7, 1e6) | {"step": 60, "progress": 0.5}
    assert of("nano").verdict(record).sentence.endswith("; try train.start_length=16 train.length_warmup_steps=12")


def test_a_modern_generator_needs_no_short_sequences():
    assert of("quick").verdict(measured(0.7, 1e9)).sentence.endswith("; train longer")


def test_a_run_that_learns_slowly_is_not_slowed_down():
    assert of("nano", *FOLLOWED).verdict(measured(0.7, 1e6)).sentence.endswith("; train longer")


def test_a_run_that_will_be_too_short_is_warned_of_early():
    needed = of("tiny").band.needed
    (warning,) = of("tiny").diagnose(measured(0.5, needed / 40, progress=0.1))
    assert warning.startswith("the run is too short to learn anything: it reads about ")
    assert not of("tiny").diagnose(measured(0.5, needed / 40, progress=0.01))  # may be a slow start
    assert not of("tiny").diagnose(measured(0.5, needed / 5, progress=0.1))  # on its plateau, as healthy runs are
    assert not of("tiny").diagnose(measured(0.5, 0, progress=0.3))  # it has used time, but made no update


def test_nothing_is_too_short_where_similar_runs_had_learned_before_they_were_measured():
    assert of("quick").band.low[0] > 0.7
    assert not of("quick").shortage(of("quick").band.needed / 2)
    assert not of("quick").diagnose(measured(0.8, of("quick").band.needed / 20, progress=0.1))


def test_a_collapse_is_told_apart_from_a_slow_run():
    (warning,) = of("quick").diagnose({**measured(0.5, 5e8), "heldout_discriminator_recall": 1.0})
    assert "calls every token replaced" in warning


@pytest.mark.parametrize(("preset", "smaller"), [("quick", "depth=0.125"), ("small", "width=0.125")])
def test_the_advice_against_too_strong_a_generator_suits_the_body(preset, smaller):
    (said,) = of(preset).diagnose({**measured(0.86, 1e9), "heldout_sampled_accuracy": 0.9})
    key = f"objective.generator.{smaller.partition('=')[0]}"
    assert f"lower {key} or raise objective.mask_fraction" in said
    load_config(preset, [f"objective.generator.{smaller}"])


def test_bands_are_of_the_same_objective_generator_and_width():
    quick = load_config("quick")
    band = expected_band(quick.model, quick.objective)
    assert (band.objective, band.generator, band.width, band.metric) == (
        "corrective",
        "masked_lm",
        256,
        "discriminator_auc",
    )
    assert expected_band(load_config("base").model, quick.objective) is None
    narrower = of("quick", "objective.generator.width=0.5", "objective.generator.sharing=none")
    assert narrower.band is None  # it leaves more to detect
    low, high = band.at(10**9)
    assert band.at(1) == (band.low[0], band.high[0])
    assert 0.7 < low < high < 1
