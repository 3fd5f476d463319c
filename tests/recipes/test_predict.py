import json
import shutil

import pytest
import torch

import electra
from electra.recipes import evaluate as recipe
from electra.recipes.evaluate import load_tuned
from electra.tasks.base import Notes

QUICK = "epochs=1.0 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw".split()


@pytest.fixture(scope="module")
def run(tiny_folder, tasks_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "sst"
    keys = ["task=sst-2", f"model={tiny_folder}", f"data={tasks_folder}", f"out={out}", *QUICK]
    electra.finetune(electra.load_finetune_config("glue", keys))
    return out


def test_predictions_come_in_the_order_of_the_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr(recipe, "BLOCK", 3)
    texts = [f"the {'cat' if number % 2 else 'dog'} sat {'on a mat ' * (number % 3)}" for number in range(10)]
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"sentence": text}) + "\n" for text in texts))
    notes = Notes()
    found = list(electra.predict(run, tmp_path / "texts.jsonl", notes=notes))
    alone = []
    for text in texts:
        (tmp_path / "one.txt").write_text(text + "\n")
        alone += list(electra.predict(run, tmp_path / "one.txt"))
    assert [prediction["label"] for prediction in found] == [prediction["label"] for prediction in alone]
    for ours, theirs in zip(found, alone, strict=True):
        assert ours["probabilities"] == pytest.approx(theirs["probabilities"], abs=1e-5)
        assert sum(ours["probabilities"].values()) == pytest.approx(1)


def test_a_folder_cannot_be_predicted(run, tmp_path):
    (tmp_path / "one.txt").write_text("the cat sat\n")
    with pytest.raises(electra.ElectraError, match="is a folder; name a file to predict"):
        list(electra.predict(run, tmp_path))


def test_truncated_examples_are_counted(run, tmp_path):
    (tmp_path / "long.txt").write_text("the cat sat on a mat " * 9 + "\nshort\n")
    notes = Notes()
    assert len(list(electra.predict(run, tmp_path / "long.txt", notes=notes))) == 2
    assert notes.counts == {"truncated inputs": 1}


def test_the_requested_device_is_used_and_not_that_of_the_run(run, tmp_path):
    (tmp_path / "one.txt").write_text("the cat sat\n")
    if not torch.cuda.is_available():
        with pytest.raises(electra.ElectraError, match="device=cuda, but PyTorch finds no NVIDIA GPU"):
            list(electra.predict(run, tmp_path / "one.txt", ["device=cuda"]))
    assert load_tuned(run, ["device=cpu"]).network.encoder.embeddings.words.weight.device.type == "cpu"
    shutil.copytree(run / "model", tmp_path / "elsewhere")
    stored = json.loads((tmp_path / "elsewhere/task.json").read_text())
    stored["config"]["device"] = "cuda"
    (tmp_path / "elsewhere/task.json").write_text(json.dumps(stored))
    (tmp_path / "elsewhere/checksums.json").unlink()
    assert len(list(electra.predict(tmp_path / "elsewhere", tmp_path / "one.txt"))) == 1


def test_the_model_folder_is_enough(run, tmp_path):
    moved = tmp_path / "elsewhere"
    (run / "model").rename(moved)
    try:
        (tmp_path / "one.txt").write_text("the cat sat\n")
        (prediction,) = electra.predict(moved, tmp_path / "one.txt")
        assert prediction["label"] in ("0", "1")
    finally:
        moved.rename(run / "model")


def test_a_split_without_labels_is_predicted_and_not_scored(run, tmp_path):
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2" / "test.tsv").write_text("index\tsentence\n0\tthe cat sat\n1\tthe dog\n")
    found = electra.evaluate(run, [f"data={tmp_path}"], "test")
    assert found.metrics == {}
    assert len(found.predictions) == 2
    assert found.files["SST-2.tsv"].startswith("index\tprediction\n0\t")
