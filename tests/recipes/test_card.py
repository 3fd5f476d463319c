import json

import pytest

from electra.errors import CheckpointError
from electra.recipes.card import training_facts


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"names no objective; restore it, or export a copy of .*model$"),
        (b'[objective]\nname = "\xff"', r"not valid TOML: .*; restore it or remove it$"),
        (b"[objective", r"not valid TOML: .*; restore it or remove it$"),
    ],
)
def test_a_damaged_config_of_a_run_is_named(content, message, tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n')
    (tmp_path / "config.toml").write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"config\.toml:? {message}"):
        training_facts(tmp_path)


@pytest.mark.parametrize("changes", [{"seeds": None}, {"median": {"accuracy": "high"}}, {"task": 5}])
def test_damaged_results_are_named(changes, tmp_path):
    results = {"task": "cola", "metric": "mcc", "protocol": "single", "start": "pretrained"}
    results |= {"seeds": [{"seed": 0, "metrics": {"mcc": 0.5}, "seconds": 1.0}]}
    results |= {"median": {"mcc": 0.5}, "std": {"mcc": 0.0}}
    (tmp_path / "results.json").write_text(json.dumps(results))
    assert training_facts(tmp_path) == {"on dev": "cola: mcc 50.00 (1 seed), protocol single"}
    (tmp_path / "results.json").write_text(json.dumps(results | changes))
    with pytest.raises(CheckpointError, match=r"results\.json is not the results of a fine-tuning: "):
        training_facts(tmp_path)
