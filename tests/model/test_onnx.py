"""Graphs for onnxruntime: the same outputs as PyTorch's, and folders with a graph used like any other."""

import json
import re
import shutil
import sys
from copy import deepcopy

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

import electra
from electra.config.load import load_config
from electra.errors import CheckpointError, ConfigError
from electra.model.bodies import build_body
from electra.model.heads import find_head
from electra.model.huggingface import read_network, write_network, write_onnx
from electra.model.networks import Discriminator, TaskNetwork
from electra.model.onnx import GRAPH, HIDDEN, SLOW, Graph, Session, quantize
from electra.model.sentences import SentenceHead
from electra.model.tensors import HEAD
from electra.recipes.evaluate import load_tuned
from electra.tasks.base import Notes

TEXT = "the chef ate the soup . a cat sat"
SHAPES = {
    "Electra": load_config("tiny", ["model.layers=1", "model.vocab_size=70"]).model,
    "ModernBert": load_config("modern-7x256", ["model.layers=2", "model.vocab_size=70", "model.window=8"]).model,
}
NAMES = {
    "ForSequenceClassification": {"logits": (2, 3)},
    "ForTokenClassification": {"logits": (2, 64, 3)},
    "ForQuestionAnswering": {"start_logits": (2, 64), "end_logits": (2, 64)},
    "ForMultipleChoice": {"logits": (2, 2)},
}


def task_network(family: str, kind: str) -> TaskNetwork:
    shape, make = SHAPES[family], find_head(f"{family}{kind}")
    head = make(shape, 3) if make.labeled else make(shape)
    return TaskNetwork(build_body(shape), head, ("a", "b", "c") if make.labeled else ())


@pytest.fixture(scope="module")
def folder(tiny_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("onnx") / "tiny"
    said = []
    electra.export(tiny_folder, out, format="onnx", say=said.append)
    assert re.fullmatch(r"outputs of onnxruntime differ from PyTorch's by at most \S+ of the largest", said[0])
    return out


def test_a_graph_detects_and_encodes_as_the_network_does(folder, tiny_model):
    model = electra.load(folder, device="cpu")
    for found, expected in zip(model.detect(TEXT * 9), tiny_model.detect(TEXT * 9), strict=True):
        assert found.probability == pytest.approx(expected.probability, abs=1e-4)
    texts = [TEXT, "a dog", TEXT * 7]
    np.testing.assert_allclose(model.encode(texts), tiny_model.encode(texts), atol=1e-3)
    assert not {"model.safetensors", "generator"} & {path.name for path in folder.iterdir()}
    assert "ORTModelForCustomTasks" in (folder / "README.md").read_text()


def test_pytorch_leaves_the_cores_to_onnxruntime(folder, monkeypatch):
    model, during, before = electra.load(folder), [], torch.get_num_threads()
    hidden = model.encoder.session.hidden

    def watched(*inputs):
        during.append(torch.get_num_threads())
        return hidden(*inputs)

    monkeypatch.setattr(model.encoder.session, "hidden", watched)
    torch.set_num_threads(2)
    model.encode(["the cat"])
    after = torch.get_num_threads()
    torch.set_num_threads(before)
    assert (during, after) == ([1], 2)


def test_an_int8_graph_is_smaller_close_and_has_a_float_head(folder, tmp_path):
    model = onnx.load(folder / GRAPH)
    small = tmp_path / "int8.onnx"
    quantize(model, small)
    assert small.stat().st_size < (folder / GRAPH).stat().st_size / 2
    ids = torch.randint(5, 60, (3, 12))
    inputs = (ids, torch.ones_like(ids), torch.zeros_like(ids))
    (expected,), (found,) = (Session(path).run([HIDDEN], inputs) for path in (folder / GRAPH, small))
    assert 0 < np.linalg.norm(found - expected) / np.linalg.norm(expected) < 0.1
    kinds = [node.op_type for node in onnx.load(small).graph.node]
    products = [kind for kind in kinds if "MatMul" in kind]
    assert products[-2:] == ["MatMul", "MatMul"]
    assert "MatMul" not in products[:-2]
    assert "Attention" in kinds
    assert not {"Split", "Softmax", "Transpose"} & set(kinds)


def test_the_difference_of_an_int8_graph_is_stated_as_a_part_of_the_norm(tiny_model, tmp_path):
    network, said = deepcopy(tiny_model.network), []
    with torch.no_grad():
        for weight in network.head.parameters():
            weight *= 1e5
    write_network(network, tmp_path, tokenizer=tiny_model.tokenizer)
    tiny_model.tokenizer.save(tmp_path)
    electra.export(tmp_path, tmp_path / "out", format="onnx", int8=True, say=said.append)
    assert re.fullmatch(r"outputs of onnxruntime differ from PyTorch's by at most 0\.0\d+ of their norm", said[0])


def test_a_session_does_not_fuse_what_is_slower_fused(folder, tmp_path):
    def kinds(**settings):
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        options.log_severity_level = 4
        onnxruntime.InferenceSession(folder / GRAPH, options, providers=["CPUExecutionProvider"], **settings)
        return {node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node}

    assert "SkipLayerNormalization" in kinds()
    assert "SkipLayerNormalization" not in kinds(disabled_optimizers=SLOW)


def test_a_tuned_model_predicts_with_a_graph(folder, tiny_model, tmp_path):
    network = TaskNetwork(
        tiny_model.encoder, find_head("PaperClassification")(tiny_model.encoder.config, 2), ("n", "y")
    )
    for name in ("torch", "onnx"):
        write_network(network, tmp_path / name, tokenizer=tiny_model.tokenizer)
    (tmp_path / "onnx" / "model.safetensors").rename(tmp_path / "onnx" / HEAD)  # the encoder's tensors are not read
    shutil.copytree(folder / "onnx", tmp_path / "onnx" / "onnx")
    tuned = [load_tuned(tmp_path / name, ["device=cpu"]) for name in ("torch", "onnx")]
    examples = [tuned[0].task.example([text, ""]) for text in (TEXT, "a dog")]
    expected, found = (one.predict(examples, Notes()) for one in tuned)
    for wanted, prediction in zip(expected, found, strict=True):
        assert prediction["label"] == wanted["label"]
        assert prediction["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-4)


def test_what_needs_weights_is_refused_in_one_line(folder, tmp_path):
    for use in (electra.export, electra.import_model):
        with pytest.raises(CheckpointError, match="an ONNX model cannot be trained or converted"):
            use(folder, tmp_path / "out")
    with pytest.raises(CheckpointError, match="an ONNX model cannot be trained or converted"):
        electra.load(folder, device="cpu").encoder.state_dict()


def test_a_damaged_graph_is_named(folder, tmp_path, monkeypatch):
    damaged = shutil.copytree(folder, tmp_path / "damaged")
    (damaged / GRAPH).write_bytes(b"damaged")
    with pytest.raises(CheckpointError, match=r"model\.onnx has changed"):
        electra.load(damaged)
    (damaged / "onnx" / "checksums.json").unlink()
    with pytest.raises(CheckpointError, match=r"model\.onnx does not run: .*; export it again"):
        electra.load(damaged)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigError, match=r"ONNX needs an extra; run: pip install '\.\[onnx\]' in the checkout"):
        electra.load(folder)


def test_a_graph_of_another_shape_than_its_config_is_refused(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other", ignore=lambda *_: ["checksums.json", HEAD])
    config = json.loads((other / "config.json").read_text())
    (other / "config.json").write_text(json.dumps(config | {"hidden_size": 64}))
    with pytest.raises(CheckpointError, match=r"has hidden states of width 128, but its config\.json says 64"):
        electra.load(other)
    (other / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 4000}))
    tall = read_network(other)
    with pytest.raises(CheckpointError, match=r"model\.onnx does not run"):
        tall(torch.zeros(1, 4000, dtype=torch.long))


def test_a_graph_without_hidden_states_is_refused(folder, tmp_path):
    other = shutil.copytree(folder, tmp_path / "other", ignore=lambda *_: ["checksums.json"])
    model = onnx.load(other / GRAPH)
    del model.graph.output[1:]
    onnx.save(model, other / GRAPH)
    with pytest.raises(CheckpointError, match="no output last_hidden_state; write one with: electra export"):
        electra.load(other)


@pytest.mark.parametrize("settings", [{"format": "onnx", "precision": "bf16"}, {"int8": True}, {"format": "tf"}])
def test_settings_that_exclude_each_other_are_refused(settings, tiny_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"an ONNX model has float32|is for --format onnx|unknown format 'tf'"):
        electra.export(tiny_folder, tmp_path / "out", **settings)


@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("kind", NAMES)
def test_outputs_have_the_names_and_shapes_of_transformers(family, kind):
    graph = Graph(task_network(family, kind))
    with torch.no_grad():
        found = {name: tuple(output.shape) for name, output in graph.outputs(*graph.example()).items()}
    assert {name: shape for name, shape in found.items() if name != HIDDEN} == NAMES[kind]


def test_the_modern_body_is_the_same_without_branches_on_the_length(monkeypatch):
    body = build_body(SHAPES["ModernBert"]).eval()
    ids = torch.randint(70, (2, 40))
    attention = (torch.arange(40) < torch.tensor([[40], [23]])).long()
    with torch.no_grad():
        expected = body(ids, attention)
        monkeypatch.setattr(torch.compiler, "is_exporting", lambda: True)
        found = body(ids, attention)
    torch.testing.assert_close(found[attention == 1], expected[attention == 1], rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("family", SHAPES)
@pytest.mark.parametrize("kind", [*NAMES, "sentences", "detection", "encoder"])
@pytest.mark.parametrize("int8", [False, True])
def test_every_head_is_written_and_read(family, kind, int8, tokenizer, tmp_path):
    body = build_body(SHAPES[family])
    made = {
        "encoder": body,
        "detection": Discriminator(body),
        "sentences": TaskNetwork(body, SentenceHead(body.config)),
    }
    network = made.get(kind) or task_network(family, kind)
    assert write_onnx(network, tmp_path, tokenizer, int8) < (0.5 if int8 else 1e-4)
    again = read_network(tmp_path)
    for length in (1, 5, 100):  # also another than that of the example
        ids = torch.randint(70, (3, length))
        bodies = (again, network) if kind == "encoder" else (again.encoder, network.encoder)
        with torch.inference_mode():
            found, expected = (body.eval()(ids) for body in bodies)
        assert (found - expected).norm() / expected.norm() < (0.2 if int8 else 1e-4)
    if kind != "encoder":
        assert type(again.head) is type(network.head)
        assert all(map(torch.equal, again.head.parameters(), network.head.parameters()))
