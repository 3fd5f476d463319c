from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from electra.data.corpus.shards import Corpus, Manifest, Shard, open_corpus

SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}


@pytest.fixture
def save_corpus(tmp_path: Path) -> Callable[..., Corpus]:
    """Return a function that saves arrays of ids as the shards of a corpus and opens it."""

    def save(name: str, *shards: np.ndarray, heldout: np.ndarray | None = None, **changes: object) -> Corpus:
        folder = tmp_path / name
        folder.mkdir()
        splits: dict[str, list[Shard]] = {"train": [], "heldout": []}
        parts = [("train", shard) for shard in shards] + ([("heldout", heldout)] if heldout is not None else [])
        for split, ids in parts:
            file = f"{split}-{len(splits[split]):05}.npy"
            np.save(folder / file, ids)
            tokens = int((~np.isin(ids, (0, 2, 3))).sum())
            splits[split].append(Shard(file, len(ids), tokens, len(ids), "", ""))
        values = {
            "tokens": sum(shard.tokens for parts in splits.values() for shard in parts),
            "sequences": sum(shard.sequences for parts in splits.values() for shard in parts),
            "documents": sum(shard.documents for parts in splits.values() for shard in parts),
            "cut": "packed",
            "length": shards[0].shape[1],
            "vocab_size": 1 << 8 * shards[0].dtype.itemsize,
            "dtype": shards[0].dtype.name,
            "special_ids": SPECIAL_IDS,
            "tokenizer_sha256": "of a tokenizer",
            "seed": 0,
            "heldout": 0.0,
            "splits": splits,
            "provenance": {},
            "report": {},
        }
        Manifest(**{**values, **changes}).write(folder)
        return open_corpus(folder)

    return save
