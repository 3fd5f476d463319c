import pytest

from electra.errors import CheckpointError
from electra.model import embedded
from electra.model.embedded import embedded_model, model_or_embedded


def test_a_model_that_is_named_counts():
    assert model_or_embedded("runs/small") == "runs/small"


def test_the_model_of_the_package_is_taken_when_none_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "FOLDER", tmp_path)
    assert embedded_model() == model_or_embedded(None) == tmp_path


def test_without_either_one_line_asks_for_a_model(tmp_path, monkeypatch):
    monkeypatch.setattr(embedded, "FOLDER", tmp_path / "none")
    assert embedded_model() is None
    with pytest.raises(CheckpointError, match="which model"):
        model_or_embedded(None)
