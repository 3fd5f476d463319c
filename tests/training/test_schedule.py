"""The schedules of the original, exactly, and our additions."""

import pytest

from electra.config.load import load_config
from electra.training.schedule import learning_rate, length_at, total_steps


def train(preset="small", *overrides):
    return load_config(preset, [f"train.{override}" for override in overrides]).train


def rate(config, step):
    return learning_rate(config, step, step / config.steps)


@pytest.mark.parametrize(
    ("step", "expected"),
    [(0, 0.0), (1, 4.999995e-8), (5000, 2.4875e-4), (10_000, 4.95e-4), (500_000, 2.5e-4), (999_999, 5e-10)],
)
def test_the_rate_of_small_is_the_originals(step, expected):
    assert rate(train(), step) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("preset", "step", "expected"),
    [("base", 5000, 9.934726e-5), ("base", 10_000, 1.973890e-4), ("base", 383_000, 1e-4), ("large", 10_000, 1.95e-4)],
)
def test_the_rates_of_base_and_large_are_the_originals(preset, step, expected):
    assert rate(train(preset), step) == pytest.approx(expected, rel=1e-6)


def test_without_warm_up_the_rate_is_full_from_the_start():  # NaN in the original
    assert rate(train("small", "warmup_steps=0"), 0) == 5e-4


def test_the_rate_of_a_continued_run_is_the_originals():
    assert rate(train("small", "learning_rate=0.0802", "steps=4_010_000"), 4_000_000) == pytest.approx(2e-4, rel=1e-6)


def test_the_stable_schedule_warms_up_stays_constant_and_decays_to_zero():
    config = train("small", "schedule=stable", "steps=1000", "warmup_steps=100", "learning_rate=1.0")
    found = [rate(config, step) for step in (0, 50, 100, 799, 800, 900, 999, 1000)]
    assert found == pytest.approx([0, 0.5, 1, 1, 1, 0.5, 0.005, 0])


def test_a_budget_in_tokens_is_converted_to_steps():
    config = train("small", "batch_size=4", "length=128", "tokens=5_130")
    assert total_steps(config) == 10
    assert total_steps(train("small", "hours=1.0")) is None


def test_the_smallest_budget_is_one_step():
    assert total_steps(train("small", "tokens=1")) == 1


def test_sequences_are_shorter_during_warm_up():
    config = train("small", "start_length=32", "length_warmup_steps=3")
    assert [length_at(config, step) for step in range(5)] == [32, 32, 32, 128, 128]
    assert length_at(train(), 0) == 128
