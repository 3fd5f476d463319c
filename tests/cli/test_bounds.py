"""Values beyond any use: every one is refused in one short line."""

import pytest

DIGITS = "1" * 5000
BRACKETS = "[" * 3000


def assert_refused(result, message: str) -> None:
    assert result.returncode == 2, result
    (line,) = result.stderr.splitlines()
    assert message in line
    assert len(line) < 700


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (f"train.steps={DIGITS}", "should be a valid integer"),
        (f"train.steps=0x{DIGITS}", "should be a valid integer"),
        (f"train.steps={BRACKETS}", "should be a valid integer"),
        (f"model.hidden_size={2**63}", "should be less than or equal to 1048576"),
        (f"seed={2**63}", "should be less than 9223372036854775808"),
        ("train.learning_rate=1e308", "should be less than or equal to 1000000000000000"),
        ("model.initializer_std=inf", "should be a finite number"),
        ("train.adam_eps=inf", "should be a finite number"),
        ("train.weight_decay=inf", "should be a finite number"),
        ("train.weight_decay=nan", "should be a finite number"),
        ("train.hours=1e30", "should be less than or equal to 1000000"),
        (f"{'x' * 100_000}=1", "unknown config key"),
    ],
)
def test_a_setting_beyond_its_bounds_is_refused(electra, setting, message):
    assert_refused(electra("config", "small", setting), message)


@pytest.mark.parametrize("value", [DIGITS, BRACKETS])
def test_a_config_file_that_python_cannot_parse_is_refused(electra, tmp_path, value):
    path = tmp_path / "config.toml"
    path.write_text(f'preset = "small"\nseed = {value}')
    assert_refused(electra("config", path), f"{path}: not valid TOML")


@pytest.mark.parametrize(
    "words",
    [
        ("demo", "--minutes", "inf"),
        ("bench", "--seconds", "inf"),
        ("bench", "--batch", 2**63),
        ("glue", "model", "--data", "data", "--out", "out", "--together", 2**63),
    ],
)
def test_an_option_beyond_its_bounds_is_refused(electra, words):
    assert_refused(electra(*words), f"Invalid value for '{words[-2]}'")
