"""Probe each layer of frozen networks: predict the chunk tags of words with a linear map of their states.

python runs/probe.py CONLL MODEL... [--sentences 2000]

Prints a line of CSV for each model and layer: the share of test words with the right tag (ridge regression, fitted on
the same number of training sentences), and the spread of the feed-forward output over words relative to the spread of
the states it is added to. If this ratio is well above one, the information from the layers below is lost.
"""

import argparse
import csv
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from electra.config.load import load_finetune_config
from electra.model.bodies import electra, modern
from electra.model.pretrained import Pretrained, load
from electra.model.windows import batches
from electra.tasks.base import Notes, Split
from electra.tasks.build import build_task
from electra.tasks.tagging.task import TaggingTask

RIDGE = 1.0  # for states with standard deviation 1
# The part of a block whose input is what its feed-forward output is added to.
ADDED_TO = {electra.Layer: "expand", modern.Layer: "feed_forward_norm"}


class Words(NamedTuple):
    """N words of a split: the states (N, H) after each layer, its feed-forward ratio, and the tags."""

    states: list[Tensor]
    ratios: list[float]
    tags: Tensor


def probe(conll: str, models: Sequence[str], sentences: int) -> Iterator[tuple[str, int, float, float]]:
    """Yield for each layer of each model the accuracy of the tags and the feed-forward ratio."""
    for name in models:
        model = load(name, device="cpu")
        task = build_task(load_finetune_config("tagging", ["task=chunking", f"data={conll}", f"model={name}"]))
        assert isinstance(task, TaggingTask)
        train, test = (read_words(model, task, split, sentences) for split in ("train", "dev"))
        for depth, (seen, unseen) in enumerate(zip(train.states, test.states, strict=True), start=1):
            accuracy = ridge(seen, train.tags, unseen, len(task.labels)).eq(test.tags).double().mean().item()
            yield name, depth, accuracy, test.ratios[depth - 1]


@torch.inference_mode()
def read_words(model: Pretrained, task: TaggingTask, split: Split, sentences: int) -> Words:
    """Run the first sentences of a split through a network, and return the states of each word's first piece."""
    examples = task.read(split, Notes())[:sentences]
    features = task.features(examples, model.tokenizer, model.window + 2, Notes(), training=False)
    layers = list(model.encoder.layers)
    inputs = [layer.get_submodule(ADDED_TO[type(layer)]) for layer in layers]
    outputs = [layer.get_submodule("contract") for layer in layers]
    seen: dict[nn.Module, Tensor] = {}
    hooks = [part.register_forward_pre_hook(lambda part, taken: seen.__setitem__(part, taken[0])) for part in inputs]
    watched = [*outputs, *layers]
    hooks += [part.register_forward_hook(lambda part, _, out: seen.__setitem__(part, out)) for part in watched]
    kept: dict[nn.Module, list[Tensor]] = {part: [] for part in (*inputs, *watched)}
    tags = []
    for batch in batches([feature.ids for feature in features], model.tokenizer.pad_id, model.device):
        model.encoder(batch.ids, batch.attention)
        targets = task.batch([features[number] for number in batch.windows], *batch.ids.shape)
        starts = targets["tag_weights"] > 0
        tags.append(targets["tags"][starts])
        for part in kept:
            kept[part].append(seen[part][starts])
    for hook in hooks:
        hook.remove()
    words = {part: torch.cat(states) for part, states in kept.items()}
    ratios = [spread(words[added]) / spread(words[before]) for added, before in zip(outputs, inputs, strict=True)]
    return Words([words[layer] for layer in layers], ratios, torch.cat(tags))


def spread(states: Tensor) -> float:
    """Return the root mean square distance of (N, H) states from their mean."""
    return float((states - states.mean(0)).square().sum(1).mean().sqrt())


def ridge(seen: Tensor, tags: Tensor, unseen: Tensor, count: int) -> Tensor:
    """Fit a linear map from seen states to their tags, and return the predicted tags of unseen ones."""
    mean, deviation = seen.mean(0), seen.std(0).clamp(min=1e-6)
    known, asked = (
        nn.functional.pad((states - mean) / deviation, (0, 1), value=1.0).double() for states in (seen, unseen)
    )
    wanted = nn.functional.one_hot(tags, count).double()
    weights = torch.linalg.solve(known.T @ known + RIDGE * torch.eye(known.size(1)), known.T @ wanted)
    found: Tensor = (asked @ weights).argmax(1)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("conll", metavar="CONLL", help="folder with the files of CoNLL-2000")
    parser.add_argument("models", metavar="MODEL", nargs="+")
    parser.add_argument("--sentences", type=int, default=2000, help="number of sentences from each file")
    lines = csv.writer(sys.stdout, lineterminator="\n")
    lines.writerow(["network", "layer", "tags found", "feed-forward against its input"])
    for name, depth, accuracy, ratio in probe(**vars(parser.parse_args())):
        lines.writerow([name, depth, f"{100 * accuracy:.1f} %", f"{ratio:.2f}"])
