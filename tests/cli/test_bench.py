import json
import shutil

import pytest
from click.testing import Result
from typer.testing import CliRunner

from electra.cli.commands import app
from electra.errors import ConfigError

KEYS = {"work", "variant", "size", "batch", "seq", "ms", "tokens_s", "mfu"}


def electra_bench(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["bench", "--device", "cpu", "--seconds", "0", "--size", "tiny", *arguments])


def test_json_has_one_object_per_row():
    result = electra_bench("--batch", "1", "--batch", "2", "--length", "16", "--against", "none", "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["work"], row["variant"], row["batch"]) for row in rows] == [
        ("pretrain", "electra", 1),
        ("pretrain", "electra", 2),
    ]
    assert all(row.keys() >= KEYS for row in rows)
    assert rows[0]["mfu"] is None


def test_the_table_has_one_line_per_row_and_no_progress():
    result = electra_bench("--batch", "1", "--length", "16", "--against", "none")
    device, head, row = result.stdout.splitlines()
    assert device.startswith("CPU")
    assert head.split()[:2] == ["variant", "size"]
    assert row.split()[:5] == ["electra", "tiny", "1", "x", "16"]
    assert "warming up electra" in result.stderr


def test_all_variants_encode_the_given_texts(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "texts.txt").write_text("a cat sat\nit was good\n")
    result = electra_bench("encode", "--text", str(tmp_path / "texts.txt"), "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["variant"] for row in rows] == ["electra", "hf_pipeline", "hf_careful", "sentence_transformers"]
    assert all((row["work"], row["seq"]) == ("encode", 5) for row in rows)


def test_trained_models_are_timed_in_turn(tiny_folder, tmp_path):
    other = shutil.copytree(tiny_folder, tmp_path / "other")
    (tmp_path / "texts.txt").write_text("a cat sat\nit was good\n")
    arguments = ["encode", "--model", str(tiny_folder), "--model", str(other), "--text", str(tmp_path / "texts.txt")]
    rows = [json.loads(line) for line in electra_bench(*arguments, "--json").stdout.splitlines()]
    assert [(row["variant"], row["size"], row["seq"]) for row in rows] == [
        (str(tiny_folder), "2x128", 5),
        (str(other), "2x128", 5),
    ]
    assert rows[0]["ratio"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["encode", "--profile"], "only for pretrain"),
        (["pretrain", "--text", __file__], "only for encode"),
        (["pretrain", "--model", "embedded"], "only for encode"),
    ],
)
def test_options_for_other_work_are_refused(arguments, message):
    result = electra_bench(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_unknown_size_gets_a_suggestion():
    result = electra_bench("--size", "smal")
    assert isinstance(result.exception, ConfigError)
    assert "did you mean small?" in str(result.exception)


def test_a_size_whose_objective_hugging_face_lacks_is_timed_by_itself():
    result = CliRunner().invoke(app, "bench --device cpu --seconds 0 --size nano --batch 1 --length 16 --json".split())
    assert [json.loads(line)["variant"] for line in result.stdout.splitlines()] == ["electra"]
    refused = electra_bench("--size", "nano", "--batch", "1", "--length", "16", "--against", "hf")
    assert isinstance(refused.exception, ConfigError)
    assert "warming up" not in refused.stderr
