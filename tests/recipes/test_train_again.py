"""The same call of `train` after something changed underneath it."""

import json
import shutil
from unittest.mock import Mock

import pytest

from electra.data.tokens.tokenizer import load_tokenizer
from electra.errors import DataError
from electra.recipes.train import PLAN, train

SET = [f"model.{key}" for key in ("layers=1", "hidden_size=32", "embedding_size=16", "heads=1", "vocab_size=100")]
SET += ["train.steps=3"]


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the cook ate .\n\n" * 60)
    return path


@pytest.fixture
def again(text, tmp_path):
    return lambda: train([text], hours=0.1, out=tmp_path / "out", overrides=SET)


def test_text_that_changed_before_its_corpus_was_built_is_planned_anew(again, text, tmp_path, monkeypatch):
    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr("electra.recipes.train._corpus", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            again()
    planned, pieces = json.loads((out / PLAN).read_text()), load_tokenizer(out / "tokenizer").vocab_size
    text.write_text("a girl and a man bake bread , cakes and fish .\n\n" * 200)
    again()
    assert json.loads((out / PLAN).read_text())["text_bytes"] > planned["text_bytes"]
    assert load_tokenizer(out / "tokenizer").vocab_size > pieces


def test_a_vocabulary_without_checksums_is_not_trusted(again, tmp_path):
    again()
    shutil.rmtree(tmp_path / "out" / "corpus")
    (tmp_path / "out" / "tokenizer" / "checksums.json").unlink()
    with pytest.raises(DataError, match=r"tokenizer has no checksums\.json: it is damaged; remove it and run the same"):
        again()
