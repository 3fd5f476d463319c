"""The same call of `train` after something changed underneath it."""

import json
import shutil
from unittest.mock import Mock

import pytest

from electra.data.tokens.tokenizer import load_tokenizer
from electra.errors import DataError
from electra.recipes.train import PLAN, planned, train

SET = [f"model.{key}" for key in ("layers=1", "hidden_size=32", "embedding_size=16", "heads=1", "vocab_size=100")]
SET += ["train.steps=3"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cook ate .\n\n" * 60)
    return path


@pytest.fixture
def again(text, tmp_path):
    return lambda hours=0.1: train([text], hours=hours, out=tmp_path / "out", overrides=SET)


@pytest.fixture
def stopped(again, text, tmp_path, monkeypatch):
    """A run that was stopped before its corpus was built, and whose text then changed."""
    with monkeypatch.context() as patch:
        patch.setattr("electra.recipes.train._corpus", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            again()
    text.write_text("a girl and a man bake bread , cakes and fish .\n\n" * 200)
    return tmp_path / "out"


@pytest.mark.parametrize("hours", [0.1, 0.2])
def test_text_that_changed_before_its_corpus_was_built_is_planned_anew(again, stopped, hours):
    before, pieces = json.loads((stopped / PLAN).read_text()), load_tokenizer(stopped / "tokenizer").vocab_size
    again(hours)
    assert json.loads((stopped / PLAN).read_text())["text_bytes"] > before["text_bytes"]
    assert load_tokenizer(stopped / "tokenizer").vocab_size > pieces


def test_planning_says_that_it_measures_and_removes_nothing(stopped, text):
    kept = {"heldout": 0.01, "lowercase": True, "invalid": "error", "init": None, "new_vocabulary": False}
    said = []
    _, known = planned([str(text)], hours=0.1, out=stopped, overrides=SET, say=said.append, **kept)
    assert not known
    assert said == ["measuring the text and how fast this machine trains on it"]
    assert (stopped / "tokenizer").is_dir()


def test_a_vocabulary_without_checksums_is_not_trusted(again, tmp_path):
    again()
    shutil.rmtree(tmp_path / "out" / "corpus")
    (tmp_path / "out" / "tokenizer" / "checksums.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer has no checksums\.json: it is damaged; remove it and run the same"):
        again()
