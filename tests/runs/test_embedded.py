"""The model that comes with the package: its shape fits the limit, and the script that makes it runs."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import electra
from electra.cli import app
from electra.config.load import load_config
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.model import embedded
from electra.model.networks import build_networks
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "runs" / "embedded.sh"
LIMIT = 8_000_000


@pytest.fixture(scope="module")
def folder(recorded, tmp_path_factory) -> Path:
    """An untrained model of the script's shape, with pieces of six letters, as English has on average."""
    place = tmp_path_factory.mktemp("embedded")
    pretrain = next(command for command in recorded("embedded.sh", "out", "1", "text") if command[0] == "pretrain")
    config = load_config(pretrain[1], pretrain[2:])
    pieces = [f"p{number:05}" for number in range(config.model.vocab_size - len(SPECIAL_TOKENS))]
    networks = build_networks(config.model, config.objective.generator)
    model = Pretrained(networks.discriminator, wordpiece([*SPECIAL_TOKENS, *pieces]), networks.generator)
    write_model(model, place / "whole")
    electra.export(place / "whole", place / "embedded", "bf16")
    return place / "embedded"


def test_the_embedded_models_shape_keeps_to_the_limit(folder):
    sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
    assert 0.9 * LIMIT < sum(sizes.values()) <= LIMIT


def test_the_embedded_model_has_tied_embeddings_once_in_each_file(folder):
    for file in (folder / "model.safetensors", folder / "generator" / "model.safetensors"):
        tensors = load_file(file)
        vocabulary = [name for name, tensor in tensors.items() if 8000 in tensor.shape and tensor.ndim == 2]
        assert vocabulary == ["electra.embeddings.word_embeddings.weight"]
        assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}


def test_the_embedded_model_computes_in_float32_and_is_found_without_a_name(folder, monkeypatch):
    assert {weight.dtype for weight in electra.load(folder, device="cpu").network.parameters()} == {torch.float32}
    monkeypatch.setattr(embedded, "FOLDER", folder)
    result = CliRunner().invoke(app, ["detect", "p00001 p00002"])
    assert result.exit_code == 0, result.output
    assert len(result.stdout.splitlines()) > 1


@pytest.mark.slow
def test_the_script_makes_a_model_of_text(tmp_path):
    (tmp_path / "text.txt").write_text("the chef ate the meal . a cat sat on the mat and then it was good .\n\n" * 400)
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIECES": "100",
        "SETTINGS": "train.steps=2 train.batch_size=4 evaluate.batches=1",
    }
    done = subprocess.run(
        ["sh", SCRIPT, "out", "1.0", "text.txt"], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "to ship it" in done.stdout
    assert electra.load(tmp_path / "out" / "embedded").generator is not None
