"""Nothing that is added to a body gets lost: a variant with more weights goes through every command."""

import pytest
import torch
from torch import nn

import electra
from electra.model.bodies import BODIES
from electra.model.bodies.electra import ElectraBody, Layer

FIRST = 0.5  # what added weights start from: no layer norm starts there
STILL = 1e-12  # a learning rate that changes no weight visibly


def added_norm(config) -> nn.LayerNorm:
    norm = nn.LayerNorm(config.hidden_size)
    nn.init.constant_(norm.weight, FIRST)
    nn.init.constant_(norm.bias, FIRST)
    return norm


class FinalNormBody(ElectraBody):
    """A body with a norm after the last block."""

    def __init__(self, config, embeddings=None, direction="both"):
        super().__init__(config, embeddings, direction)
        self.final_norm = added_norm(config)

    def forward(self, ids, attention=None, types=None):
        return self.final_norm(super().forward(ids, attention, types))


class TwiceNormedLayer(Layer):
    """A block with one more norm, inside a module of its own."""

    def __init__(self, config):
        super().__init__(config)
        self.more = nn.ModuleDict({"norm": added_norm(config)})

    def forward(self, hidden, mask):
        return self.more["norm"](super().forward(hidden, mask))


class NestedNormBody(ElectraBody):
    """A body of such blocks."""

    def __init__(self, config, embeddings=None, direction="both"):
        super().__init__(config, embeddings, direction)
        self.layers = nn.ModuleList(TwiceNormedLayer(config) for _ in range(config.layers))


@pytest.fixture(params=[FinalNormBody, NestedNormBody])
def body(request, monkeypatch):
    monkeypatch.setitem(BODIES, "electra", request.param)
    return request.param


def is_added(name: str) -> bool:
    return "final_norm" in name or "more.norm" in name


def encoders(model: electra.Pretrained) -> list[dict[str, torch.Tensor]]:
    """Return the weights of the main encoder and of the generator's, if there is one."""
    networks = [model.network, *([model.generator] if model.generator else [])]
    return [network.encoder.state_dict() for network in networks]


def assert_same(found: list[dict[str, torch.Tensor]], expected: list[dict[str, torch.Tensor]]) -> None:
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.keys() == theirs.keys()
        assert sum(map(is_added, ours)) == 2  # weight and bias
        for name, weight in ours.items():
            torch.testing.assert_close(weight, theirs[name], rtol=1e-6, atol=1e-7, msg=name)


@pytest.mark.parametrize("sharing", ["embeddings", "gdes"])
def test_weights_that_were_added_to_a_body_are_kept_from_pretraining_to_a_tuned_model(
    body, sharing, config, tasks_folder, tmp_path
):
    shared = f"objective.generator.sharing={sharing}"
    trained = electra.load(electra.pretrain(config(shared, out="first")))
    weights = encoders(trained)
    assert len(weights) == 2
    for encoder in weights:
        for name in filter(is_added, encoder):
            assert not (encoder[name] == FIRST).any(), f"{name} was not trained"

    assert_same(encoders(electra.load(electra.export(tmp_path / "first", tmp_path / "exported"))), weights)
    electra.import_model(tmp_path / "exported", tmp_path / "imported")
    assert_same(encoders(electra.load(tmp_path / "imported")), weights)

    changes = [shared, f"init={tmp_path / 'imported'}", f"train.learning_rate={STILL}", "train.steps=2"]
    again = electra.load(electra.pretrain(config(*changes, out="again")))
    assert_same(encoders(again), weights)
    found, expected = ([token.probability for token in model.detect("the chef ate")] for model in (again, trained))
    assert found == pytest.approx(expected)

    keys = ["task=sst-2", f"model={tmp_path / 'again'}", f"data={tasks_folder}", f"out={tmp_path / 'tuned'}"]
    keys += [f"learning_rate={STILL}", "epochs=0.1", "batch_size=8", "head=huggingface"]
    electra.finetune(electra.load_finetune_config("glue", keys))
    assert_same(encoders(electra.load(tmp_path / "tuned")), weights[:1])
    electra.export(tmp_path / "tuned", tmp_path / "tuned-exported")
    assert_same(encoders(electra.load(tmp_path / "tuned-exported")), weights[:1])
