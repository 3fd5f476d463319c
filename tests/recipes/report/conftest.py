"""Small run folders, written as training would write them."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.config.load import dump_config, load_config

RESULTS = {
    "task": "mrpc",
    "protocol": "single",
    "metric": "accuracy",
    "model": "runs/a",
    "start": "pretrained",
    "examples": {"train": 30, "dev": 10},
    "seeds": [{"seed": seed, "metrics": {"accuracy": 0.7 + seed / 50}, "seconds": 3.0} for seed in (0, 1)],
    "median": {"accuracy": 0.71},
    "std": {"accuracy": 0.014},
    "interval": {"accuracy": [0.58, 0.84]},
}
SAMPLE = {
    "original": [" the", " cat", " sat", "ting"],
    "shown": [" the", " </script><b>", " sat", "ting"],
    "replaced": [0.1, 0.875, 0.2, None],
    "predicted": None,
}


def training(step: int) -> dict:
    speed = {"learning_rate": 1e-4, "gradient_norm": 1.0, "tokens_per_second": 1000.0 + step, "peak_share": 0.1}
    losses = {"loss": 20 - step / 10, "generator_loss": 9 - step / 20, "discriminator_loss": 0.7 - step / 400}
    found = {"discriminator_auc": 0.5 + step / 250, "discriminator_precision": 0.4, "discriminator_recall": 0.3}
    return {**position(step), **speed, **losses, **found, "replaced_fraction": 0.14}


def heldout(step: int) -> dict:
    speed = ("learning_rate", "gradient_norm", "tokens_per_second", "peak_share")
    metrics = {name: value for name, value in training(step).items() if name not in (*position(step), *speed)}
    return {**position(step), **{f"heldout_{name}": value for name, value in metrics.items()}}


def position(step: int) -> dict:
    return {"step": step, "tokens": 1000 * step, "seconds": 2.0 * step, "progress": step / 100}


def write_lines(path: Path, records: list[dict]) -> None:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


@pytest.fixture
def make_run(tmp_path) -> Callable[..., Path]:
    """A function that writes a pre-training run after some of 100 steps."""

    def make(
        name: str,
        *overrides: str,
        preset: str = "tiny",
        steps: int = 100,
        measured: bool = True,
        warning: str | None = None,
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text(dump_config(load_config(preset, [f"out={folder}", *overrides])))
        records = [training(step) for step in range(2, steps + 1, 2)]
        if measured:
            records += [heldout(step) for step in range(0, steps + 1, 10)]
            samples = [{"step": step, "samples": [SAMPLE]} for step in range(0, steps + 1, 10)]
            write_lines(folder / "samples.jsonl", samples)
        if warning:
            records.append({"step": 40, "warning": warning})
        write_lines(folder / "metrics.jsonl", sorted(records, key=lambda record: record["step"]))
        place = {"device": "NVIDIA H200", "processes": 1, "electra": "0.1.0", "torch": "2.11"}
        (folder / "environment.json").write_text(json.dumps([place]))
        return folder

    return make


@pytest.fixture
def make_tuned(tmp_path) -> Callable[..., Path]:
    """A function that writes the results of a fine-tuning run."""

    def make(name: str, **changes) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "results.json").write_text(json.dumps({**RESULTS, **changes}))
        return folder

    return make
