"""Measure how many tokens per second the loader reads from a memory-mapped corpus; taskset limits the cores.

taskset -c 0 python runs/bench_loader.py [CORPUS...] [--length 128] [--batch-size 128]

Without a corpus, a temporary one of random ids is written: 2 GB on disk, two documents per sequence.
"""

import argparse
import tempfile
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch

from electra.data.corpus.shards import Manifest, Shard, open_corpus
from electra.data.feeding.loader import Loader

SPECIAL_IDS = {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
STORED_BYTES = 2 << 30
SHARDS = 16
VOCAB_SIZE = 30_522


def make_corpus(folder: Path, length: int) -> None:
    """Write a corpus of random ids with two documents per sequence."""
    random = np.random.default_rng(0)
    rows = STORED_BYTES // SHARDS // (2 * length)
    shards = []
    for number in range(SHARDS):
        ids = random.integers(5, VOCAB_SIZE, (rows, length), np.uint16)
        ids[:, 0] = ids[:, length // 2] = SPECIAL_IDS["cls"]
        ids[:, -1] = ids[:, length // 2 - 1] = SPECIAL_IDS["sep"]
        shards.append(Shard(f"train-{number:05}.npy", rows, rows * (length - 4), 2 * rows, "", ""))
        np.save(folder / shards[-1].file, ids)
    Manifest(
        tokens=SHARDS * rows * (length - 4),
        sequences=SHARDS * rows,
        documents=2 * SHARDS * rows,
        cut="packed",
        length=length,
        vocab_size=VOCAB_SIZE,
        dtype="<u2",
        special_ids=SPECIAL_IDS,
        tokenizer_sha256="",
        seed=0,
        heldout=0.0,
        splits={"train": shards, "heldout": []},
        provenance={},
        report={},
    ).write(folder)


def measure(paths: list[Path], batch_size: int, seconds: float) -> None:
    """Print the speed of a loader over the corpora, and the time to its first batch, also at a late step."""
    corpora = [open_corpus(path) for path in paths]
    loader = Loader(corpora, batch_size=batch_size, seed=0)
    length = corpora[0].manifest.length
    tokens_per_batch = batch_size * length
    print(f"{sum(corpus.manifest.sequences for corpus in corpora):,} sequences of {length}", end=", ")
    print(f"batches of {batch_size}, attention mask {'not ' if loader.layout.whole else ''}needed")
    for start in (0, 10**9):
        began = time.perf_counter()
        next(loader.batches(start))
        print(f"first batch from step {start:,}: {1000 * (time.perf_counter() - began):.1f} ms")
    batches, count = loader.batches(), 0
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        count += sum(1 for _ in islice(batches, 50))
    rate = count * tokens_per_batch / (time.perf_counter() - began)
    print(f"{rate / 1e6:.1f} M tokens/s over {seconds:.0f} s")


def main() -> None:
    """Parse the arguments and measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", nargs="*", type=Path)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.corpus:
        measure(arguments.corpus, arguments.batch_size, arguments.seconds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            make_corpus(Path(folder), arguments.length)
            measure([Path(folder)], arguments.batch_size, arguments.seconds)


if __name__ == "__main__":
    main()
