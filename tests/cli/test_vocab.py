import json
from pathlib import Path

import pytest


@pytest.fixture
def text(tmp_path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("the tea in the kettle\n\nthe cat at the table\n\n" * 40)
    return path


def test_a_vocabulary_is_trained_and_reported(electra, tmp_path, text):
    result = electra("vocab", text, "--size", 50, "--out", tmp_path / "out")
    assert result.returncode == 0, result.stderr
    assert " pieces (wordpiece, uncased, accents stripped)" in result.stdout
    assert "tokens per word" in result.stdout


def test_the_report_is_available_as_json(electra, tmp_path, text):
    result = electra("vocab", text, "--size", 5000, "--out", tmp_path / "out", "--cased", "--json")
    report = json.loads(result.stdout)
    assert report == json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["size"] < report["requested_size"] == 5000
    assert not report["lowercase"]


def test_text_comes_from_standard_input(electra, tmp_path, text):
    result = electra("vocab", "-", "--size", 60, "--out", tmp_path / "out", stdin=text.read_text())
    assert result.returncode == 0, result.stderr


def test_a_mistake_is_a_one_line_error(electra, tmp_path, text):
    result = electra("vocab", text, "--size", 2, "--out", tmp_path / "out")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.splitlines() == ["electra: a vocabulary of 2 pieces is too small; use at least 50"]
