import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from electra.config.load import load_config
from electra.config.schema import PretrainConfig
from electra.data.corpus.build import build_corpus

SHAPE = "layers=1 hidden_size=32 heads=1 embedding_size=16 feed_forward_size=64 max_length=16"
SHORT = "steps=10 batch_size=8 length=16 warmup_steps=2"
OFTEN = ["evaluate.every=5", "evaluate.batches=2", "checkpoint.every=5", "log.every=1"]


@pytest.fixture(scope="session")
def corpus(tokenizer, tmp_path_factory) -> Path:
    """Some hundred sequences of 16 tokens, with short documents, long ones and padding."""
    source = random.Random(0)
    nouns, verbs = "chef cat ox".split(), "ate cooked sat on".split()  # an ox is two pieces: o ##x
    sentences = [
        f"the {source.choice(nouns)} {source.choice(verbs)} the {source.choice(['meal', 'soup', 'mat'])} ."
        + source.choice(["\n\n", " "])
        for _ in range(400)
    ]
    folder = tmp_path_factory.mktemp("text")
    (folder / "text.txt").write_text("".join(sentences))
    build_corpus(
        [folder / "text.txt"], tokenizer, length=16, cut="packed", out=folder / "corpus", heldout=0.1, workers=0
    )
    return folder / "corpus"


@pytest.fixture
def arguments(corpus, tokenizer, tmp_path) -> Callable[..., list[str]]:
    """A function from overrides to the arguments of a run that takes a second; `out` names its folder."""

    def make(*overrides: str, out: str = "run") -> list[str]:
        sections = [("model", f"{SHAPE} vocab_size={tokenizer.vocab_size}"), ("train", SHORT)]
        keys = [f"{name}.{override}" for name, text in sections for override in text.split()]
        if any(override.startswith(("train.tokens=", "train.hours=")) for override in overrides):
            keys.remove("train.steps=10")
        return ["tiny", f"data={corpus}", f"out={tmp_path / out}", *keys, *OFTEN, *overrides]

    return make


@pytest.fixture
def config(arguments) -> Callable[..., PretrainConfig]:
    """The same as a config."""

    def make(*overrides: str, out: str = "run") -> PretrainConfig:
        preset, *rest = arguments(*overrides, out=out)
        return load_config(preset, rest)

    return make


@pytest.fixture(scope="session")
def records() -> Callable[[Path], list[dict[str, Any]]]:
    """A function from a run to the lines of its metrics, without what the clock decides."""
    clock = ("seconds", "tokens_per_second", "peak_share")

    def read(run: Path) -> list[dict[str, Any]]:
        lines = (run / "metrics.jsonl").read_text().splitlines()
        return [{name: value for name, value in json.loads(line).items() if name not in clock} for line in lines]

    return read


@pytest.fixture(scope="session")
def without_clock() -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A function from the results of a fine-tuning to those without what the clock decides, and without the model."""
    clock = ("seconds", "tokens_per_second")

    def drop(results: dict[str, Any]) -> dict[str, Any]:
        seeds = [{name: value for name, value in seed.items() if name not in clock} for seed in results["seeds"]]
        return results | {"seeds": seeds, "model": None}

    return drop


@pytest.fixture(scope="session")
def held_out(records) -> Callable[[Path], list[dict[str, Any]]]:
    """A function from a run to its measurements on held-out text."""
    return lambda run: [record for record in records(run) if "heldout_loss" in record]


@pytest.fixture(scope="session")
def weights() -> Callable[[Path], dict[str, bytes]]:
    """A function from a run to the bytes of its newest checkpoint and of its model."""

    def read(run: Path) -> dict[str, bytes]:
        newest = max((run / "checkpoints").glob("step-*"))
        files = [*newest.glob("*.safetensors"), *(run / "model").rglob("*.safetensors")]
        return {str(path.relative_to(run)): path.read_bytes() for path in files}

    return read
