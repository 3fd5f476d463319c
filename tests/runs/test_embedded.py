"""The model shipped with the package: its files, what it can do, and the script that trains it."""

import os
import re
import subprocess
import sys
import tarfile
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from entries import RESULTS, csv_rows, points
from safetensors.torch import load_file

import electra
from electra.config.load import load_config
from electra.errors import ForeignText
from electra.model.pretrained import Pretrained, find_folder

EMBEDDED = find_folder("embedded")
ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "runs" / "embedded.sh"
LIMIT = 8_000_000
ENTRY = RESULTS / "2026-11-18-package"


@pytest.fixture(scope="module")
def model() -> Pretrained:
    return electra.load(device="cpu")


def suspicion(model: Pretrained, text: str) -> dict[str, float]:
    return {token: probability for token, probability, _ in model.detect(text)}


def test_the_embedded_model_is_within_the_size_limit():
    sizes = {path: path.stat().st_size for path in EMBEDDED.rglob("*") if path.is_file()}
    assert 0.9 * LIMIT < sum(sizes.values()) <= LIMIT


def test_the_built_package_contains_the_embedded_model(tmp_path, monkeypatch):
    hatchling = pytest.importorskip("hatchling.build")
    shipped = {str(path.relative_to(ROOT / "src")) for path in EMBEDDED.rglob("*") if path.is_file()}
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / hatchling.build_wheel(str(tmp_path))) as wheel:
        assert shipped <= set(wheel.namelist())
    with tarfile.open(tmp_path / hatchling.build_sdist(str(tmp_path))) as sdist:
        assert shipped <= {name.partition("/src/")[2] for name in sdist.getnames()}


def test_the_embedded_model_has_the_shape_that_the_script_trains(model, recorded):
    pretrain = next(command for command in recorded("embedded.sh", "out", "1", "text") if command[0] == "pretrain")
    config = load_config(pretrain[1], pretrain[2:])
    assert model.encoder.config == config.model
    assert model.generator.encoder.config.hidden_size == config.objective.generator.width * config.model.hidden_size


def test_each_file_of_the_embedded_model_stores_tied_embeddings_once():
    for file in (EMBEDDED / "model.safetensors", EMBEDDED / "generator" / "model.safetensors"):
        tensors = load_file(file)
        vocabulary = [name for name, tensor in tensors.items() if 8000 in tensor.shape and tensor.ndim == 2]
        assert vocabulary == ["model.embeddings.tok_embeddings.weight"]
        assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_the_embedded_model_computes_in_float32(model):
    assert {weight.dtype for weight in model.network.parameters()} == {torch.float32}


def test_the_embedded_model_detects_a_wrong_word_but_not_the_right_one(model):
    wrong = suspicion(model, "I think that you are write.")
    assert max(wrong, key=wrong.get) == "write"
    assert wrong["write"] > 0.5
    assert max(suspicion(model, "I think that you are right.").values()) < 0.2


def test_the_embedded_model_notices_a_noun_that_makes_no_sense(model):
    wrong = suspicion(model, "the cat sat on the government")
    assert max(wrong, key=wrong.get) == "government"
    assert wrong["government"] > 0.5
    assert max(suspicion(model, "the cat sat on the chair").values()) < 0.5


def test_the_embedded_models_generator_guesses_a_hidden_word(model):
    encoding = model.tokenizer.encode(["He shook his head and said nothing."])[0]
    place = encoding.tokens.index("head")
    assert model.propose(encoding.ids, [place])[0].argmax() == encoding.ids[place]


def test_the_embedded_models_card_agrees_with_the_ledger():
    (tuned,) = points(ENTRY)
    measured = {
        *csv_rows(ENTRY / "heldout.csv")[1][1:],
        *(tuned.cell(task).removesuffix(" (3)") for task in ("cola", "sst-2", "mrpc", "sts-b")),
        csv_rows(ENTRY / "blimp.csv")[-1][-1],
    }
    card = (EMBEDDED / "README.md").read_text(encoding="utf-8")
    scores = re.findall(r"\| ([^|]+) \|$", card.partition("## Scores")[2].partition("## Limits")[0], re.MULTILINE)
    assert {score.replace(" %", "%") for score in scores if score.strip()} == measured
    assert f"{tuned.steps:,} updates" in card


def test_embedded_is_a_model_name_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert Path(electra.__file__).parent / "embedded" == EMBEDDED
    assert electra.load_tokenizer("embedded").vocab_size == 8000
    config = electra.load_finetune_config("table", ["model=embedded", "data=pairs.csv", "out=tuned"])
    with pytest.raises(electra.ElectraError, match="pairs"):  # the model was found
        electra.finetune(config)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("나는 학교에 갔다. 오늘은 날씨가 좋다.", "75% of the tokens are unknown"),
        ("Я пошёл в школу вчера вечером с друзьями.", "needs 3.8 pieces for a word"),
    ],
)
def test_text_in_another_language_gets_a_warning(text, found, model):
    for use in (model.detect, lambda text: model.encode([text])):
        with pytest.warns(ForeignText, match=found):
            use(text)


def test_english_and_german_get_no_warning(model):
    with warnings.catch_warnings(action="error"):
        model.detect("I think that you are write. Gestern bin ich mit meinen Freunden in die Schule gegangen.")


@pytest.mark.slow
def test_the_script_trains_a_model_from_text(tmp_path):
    (tmp_path / "text.txt").write_text("the chef ate the meal . a cat sat on the mat and then it was good .\n\n" * 400)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIECES": "100",
        "SETTINGS": "train.batch_size=4 evaluate.batches=1",
    }
    done = subprocess.run(
        ["sh", SCRIPT, "out", "0.002", "text.txt"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "to ship it" in done.stdout
    assert electra.load(tmp_path / "out" / "embedded").generator is not None
