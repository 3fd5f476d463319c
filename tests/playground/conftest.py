import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import electra
from electra.model.networks import Discriminator, build_networks
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model

ANIMALS = ["cat", "dog", "chef"]
ROWS: dict[str, list[dict[str, Any]]] = {
    "classes": [{"text": f"the {one} sat", "label": "tame" if one == "cat" else "wild"} for one in ANIMALS * 3],
    "pairs": [
        {"sentence1": f"the {one} sat", "sentence2": f"a {two} ate", "label": "same" if one == two else "other"}
        for one in ANIMALS
        for two in ANIMALS
    ],
    "sets": [{"text": f"the {one} ate", "labels": ["food", one]} for one in ANIMALS * 3],
    "values": [{"text": "good " * number, "score": number / 2} for number in range(1, 8)],
    "spans": [{"words": f"the {one} sat on a mat", "tags": "O B-ONE O O O B-TWO"} for one in ANIMALS * 2],
    "words": [{"words": f"the {one} sat", "tags": "DET NOUN VERB"} for one in ANIMALS * 2],
    "questions": [
        {"question": "who sat", "context": f"the {one} sat on a mat", "answers": f"the {one}"} for one in ANIMALS * 2
    ],
}


@pytest.fixture(scope="session")
def fresh_folder(tiny_config, tokenizer, tmp_path_factory) -> Path:
    """An untrained model, which learns a few rows quickly; the other test models have unusual weights."""
    torch.manual_seed(0)
    encoder, _ = build_networks(tiny_config.model, tiny_config.objective.generator)
    folder = tmp_path_factory.mktemp("models") / "fresh"
    write_model(Pretrained(Discriminator(encoder), tokenizer), folder)
    return folder


@pytest.fixture(scope="session")
def tuned_run(fresh_folder, tmp_path_factory) -> Callable[..., Path]:
    """A function that fine-tunes a run for a kind of task, within seconds."""
    folder = tmp_path_factory.mktemp("tuned")

    def make(kind: str, epochs: int = 1) -> Path:
        out = folder / f"{kind}-{epochs}"
        if not out.exists():
            table = folder / f"{kind}.jsonl"
            table.write_text("".join(json.dumps(row) + "\n" for row in ROWS[kind]))
            settings = [f"epochs={epochs}", "batch_size=2", "learning_rate=1e-3", "layer_decay=1.0", "optimizer=adamw"]
            keys = [f"data={table}", f"model={fresh_folder}", f"out={out}", *settings]
            electra.finetune(electra.load_finetune_config("table", keys))
        return out

    return make
