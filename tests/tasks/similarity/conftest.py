import csv
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from electra.config.load import load_finetune_config
from electra.model.bodies import build_body
from electra.model.networks import Discriminator
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model
from electra.tasks.base import Task
from electra.tasks.build import build_task

THINGS = ["soup", "mat", "meal", "dog", "cat", "chef"]


@pytest.fixture(scope="session")
def fresh(tiny_config, tokenizer, tmp_path_factory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "fresh"
    write_model(Pretrained(Discriminator(build_body(tiny_config.model)), tokenizer), folder)
    return folder


def write(path: Path, rows: list[dict]) -> Path:
    """Write a table in the format of its name."""
    if path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        from pyarrow import Table, parquet

        parquet.write_table(Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def scored_rows(count: int, seed: int) -> list[dict]:
    """Two sentences are similar if they speak of the same thing."""
    source = random.Random(seed)
    pairs = [(source.choice(THINGS), source.choice(THINGS)) for _ in range(count)]
    return [
        {"sentence1": f"the {one} was good {n}", "sentence2": f"a {two} and {two}", "score": 5.0 if one == two else 0.5}
        for n, (one, two) in enumerate(pairs)
    ]


@pytest.fixture
def make_task() -> Callable[..., Task]:
    def make(*keys: str) -> Task:
        return build_task(load_finetune_config("similarity", list(keys)))

    return make
