"""Small corpora that tests build and compare."""

import filecmp
import random
from pathlib import Path

import pytest

from electra.data.corpus.build import build_corpus
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece

LETTERS = "abcdefghijklmnopqrstuvwxyz"
TOKENIZER = wordpiece([*SPECIAL_TOKENS, *LETTERS, *(f"##{letter}" for letter in LETTERS)])


def write_text(path: Path, documents: int, seed: int = 0) -> Path:
    source = random.Random(seed)
    lines = []
    for _ in range(documents):
        for _ in range(source.randint(1, 6)):
            lines.append(" ".join("".join(source.choices(LETTERS, k=4)) for _ in range(source.randint(3, 40))))
        lines.append("")
    path.write_text("\n".join(lines))
    return path


def build(source, out: Path, **options):
    defaults = {"length": 32, "workers": 0, "shard_characters": 5_000, "heldout": 0.1}
    return build_corpus(source, TOKENIZER, out=out, **{**defaults, **options})


def same(one: Path, other: Path) -> bool:
    """Compare two folders, file by file and byte by byte."""
    files = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(other) for path in other.rglob("*") if path.is_file())
    return not any(filecmp.cmpfiles(one, other, files, shallow=False)[1:])


def interrupt(text: Path, out: Path, **options) -> None:
    """Start a build and interrupt it while it writes its fourth shard."""

    def stop(progress):
        if len(list(out.with_name(f"{out.name}.partial").glob("groups/*.json"))) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build(text, out, progress=stop, **options)
