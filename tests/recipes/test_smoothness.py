"""The penalty on predictions that change near an input."""

import pytest
import torch
from torch import nn

import electra
from electra.recipes.finetune import TaskLoss
from electra.recipes.smoothness import RADIUS, roughness
from electra.training.run import read_records


@pytest.fixture
def linear():
    """Embeddings of three texts of one token, and the weights of a prediction that is linear in them."""
    torch.manual_seed(0)
    return nn.Embedding(3, 8).double(), torch.randn(8, dtype=torch.float64, requires_grad=True)


def test_the_steepest_change_of_a_linear_prediction_is_found(linear):
    embeddings, weights = linear
    ids = torch.arange(3)[:, None]
    before = embeddings(ids) @ weights
    found = roughness(embeddings, lambda: (embeddings(ids) @ weights - before).square().mean())
    lengths = RADIUS * embeddings.weight.norm(dim=1)
    steepest = (lengths * weights.norm()).square().mean()
    assert found.item() == pytest.approx(steepest.item())
    found.backward()
    assert torch.allclose(weights.grad, 2 * lengths.square().mean() * weights)


def test_the_embeddings_are_as_before_afterwards(linear):
    embeddings, _ = linear
    ids = torch.arange(3)

    def fail():
        assert not torch.equal(embeddings(ids), embeddings.weight)
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        roughness(embeddings, fail)
    assert torch.equal(embeddings(ids), embeddings.weight)


def test_a_prediction_that_depends_on_nothing_is_smooth(linear):
    embeddings, _ = linear
    assert roughness(embeddings, lambda: (embeddings(torch.arange(3)) * 0).sum()) == 0


@pytest.mark.gpu
def test_the_kernels_find_the_same_change(tmp_path):
    texts = ["a fine day", "rain again", "the sun shines on us all", "it is cold and it rains"] * 16
    rows = "".join(f"{text},{number % 2}\n" for number, text in enumerate(texts))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    keys = [
        "model=embedded",
        f"data={tmp_path / 'train.csv'}",
        "smoothness=10000",
        "epochs=1",
        "table.dev_fraction=0.2",
    ]
    first = {}
    for device in ("cpu", "cuda"):
        out = tmp_path / device
        electra.finetune(electra.load_finetune_config("table", [*keys, f"device={device}", f"out={out}"]))
        first[device] = read_records(out / "seeds/0/metrics.jsonl")[0]["loss"]
    assert first["cuda"] == pytest.approx(first["cpu"], rel=0.3)  # the search begins at random places


@pytest.mark.gpu
def test_recorded_updates_search_from_other_places_each_time(tmp_path, monkeypatch):
    rows = "".join(f"{text},{number % 2}\n" for number, text in enumerate(["a fine day", "rain again"] * 32))
    (tmp_path / "train.csv").write_text(f"text,label\n{rows}")
    keys = [
        "model=embedded",
        f"data={tmp_path / 'train.csv'}",
        "smoothness=1000",
        "epochs=10",
        "table.dev_fraction=0.2",
    ]
    losses = []
    for out in ("recorded", "fresh"):
        electra.finetune(
            electra.load_finetune_config("table", [*keys, "log_every=1", "device=cuda", f"out={tmp_path / out}"])
        )
        losses.append([record["loss"] for record in read_records(tmp_path / out / "seeds/0/metrics.jsonl")])
        monkeypatch.setattr(TaskLoss, "recordable", lambda loss, batch: False)
    assert losses[0] == losses[1]
