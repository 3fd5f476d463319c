"""Compare the sentence similarity computed by each layer of frozen networks with human judgments.

python runs/vectors.py GLUE MODEL...

Prints a line of CSV for each model and layer: Spearman's correlation, in percent, between the cosine similarity of
sentence vectors (from `encode`) and the human scores of the STS-B dev set. Nothing is trained.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from electra.config.load import load_finetune_config
from electra.model.pretrained import load
from electra.model.sentences import unit_vectors
from electra.tasks.base import Notes
from electra.tasks.build import build_task
from electra.tasks.texts import metrics


def similarities(glue: str, models: Sequence[str]) -> Iterator[tuple[str, int, float]]:
    """Yield for each layer of each model the correlation of its similarities with the human scores."""
    pairs = build_task(load_finetune_config("glue", ["task=sts-b", f"data={glue}"])).read("dev", Notes())
    scores = [pair.label for pair in pairs]
    for name in models:
        model = load(name, device="cpu")
        layers = model.encoder.layers
        for depth in range(1, len(layers) + 1):
            model.encoder.layers = layers[:depth]
            vectors = (np.asarray(model.encode([pair.texts[side] for pair in pairs])) for side in (0, 1))
            first, second = map(unit_vectors, vectors)
            yield name, depth, metrics.spearman(scores, (first * second).sum(1).tolist())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("glue", metavar="GLUE", help="folder with the files of GLUE or STS-B")
    parser.add_argument("models", metavar="MODEL", nargs="+")
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["network", "layer", "correlation"])
    for name, depth, found in similarities(**vars(parser.parse_args())):
        lines.writerow([name, depth, f"{100 * found:.1f}"])
