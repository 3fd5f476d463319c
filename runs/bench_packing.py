"""Measure how fast texts of mixed lengths are encoded and learned from, padded and packed, on a GPU.

python runs/bench_packing.py TEXT --tokenizer VOCAB [--size modern-12x256] [--length 512] [--batch 64] [--texts 16384]

A text is a line. `padded` takes batches in the order of the file and pads each to its longest text, as most training
loops do; `sorted` takes texts of similar length together; `packed` has no padding.
"""

import argparse
import itertools
import statistics
import time
from collections.abc import Callable, Iterator

import numpy as np
import torch

from electra.config.load import load_config
from electra.data.reading.text import read_documents
from electra.data.tokens.tokenizer import load_tokenizer
from electra.model.bodies import build_body
from electra.model.packing import pack
from electra.model.windows import ROW_STEP, WindowBatch, batches
from electra.training.weights import up_to

ROUNDS = 5


def in_order(
    windows: list[list[int]], size: int, packs: bool, pad_id: int, device: torch.device
) -> Iterator[WindowBatch]:
    """Yield batches in the order of the texts."""
    for at in range(0, len(windows), size):
        part = windows[at : at + size]
        lengths = torch.tensor([len(window) for window in part])
        longest, tokens = int(lengths.max()), int(lengths.sum())
        ids = torch.full((len(part), longest), pad_id)
        for row, window in zip(ids, part, strict=True):
            row[: len(window)] = torch.tensor(window)
        attention = (torch.arange(longest) < lengths[:, None]).long().to(device)
        packing = pack(lengths.to(device), longest, tokens, up_to(ROW_STEP, tokens)) if packs else None
        yield WindowBatch(np.arange(at, at + len(part)), ids.to(device), attention, packing)


def main() -> None:
    """Print tokens per second of every variant, the median of rounds in which all of them take turns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--size", default="modern-12x256")
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--texts", type=int, default=16_384)
    asked = parser.parse_args()
    device, tokenizer = torch.device("cuda"), load_tokenizer(asked.tokenizer)
    lines = (line for passage in read_documents([asked.text]) for line in passage.text.split("\n"))
    encodings = tokenizer.encode(itertools.islice(lines, asked.texts))
    windows = [[tokenizer.cls_id, *found.ids[: asked.length - 2], tokenizer.sep_id] for found in encodings]
    tokens = sum(map(len, windows))
    model = load_config(asked.size, [f"model.vocab_size={tokenizer.vocab_size}"]).model
    body = build_body(model).to(device, torch.bfloat16)
    assert body.packs(torch.bfloat16, device)
    pad_id = tokenizer.pad_id
    made = {
        "padded": list(in_order(windows, asked.batch, False, pad_id, device)),
        "sorted": list(batches(windows, pad_id, device)),
        "packed": list(in_order(windows, asked.batch, True, pad_id, device)),
        "sorted and packed": list(batches(windows, pad_id, device, packs=True)),
    }
    print(f"{len(windows):,} texts, {tokens:,} tokens, longest {max(map(len, windows))}, {asked.size}")

    def encode(found: list[WindowBatch]) -> None:
        with torch.inference_mode():
            for batch in found:
                batch.run(body)

    def learn(found: list[WindowBatch]) -> None:
        for batch in found:
            torch.autograd.backward(batch.run(body).sum())

    for work, names in ((encode, list(made)), (learn, ["padded", "packed"])):
        times = {name: [timed(work, made[name]) for _ in range(2)] for name in names}  # compiles and warms up
        for _ in range(ROUNDS):
            for name in names:
                times[name].append(timed(work, made[name]))
        for name in names:
            seconds = statistics.median(times[name][2:])
            ratio = statistics.median(times["padded"][2:]) / seconds
            spread = f"{tokens / max(times[name][2:]):,.0f} to {tokens / min(times[name][2:]):,.0f}"
            print(f"{work.__name__:8}{name:20}{tokens / seconds:14,.0f} tokens/s ({spread})  {ratio:.2f}x")


def timed(work: Callable[[list[WindowBatch]], None], found: list[WindowBatch]) -> float:
    """Return the seconds that the work takes."""
    torch.cuda.synchronize()
    began = time.perf_counter()
    work(found)
    torch.cuda.synchronize()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
