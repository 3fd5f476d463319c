"""Compare discriminators on the same text, corrupted by the same generator.

python runs/judge.py CORPUS GENERATOR_RUN RUN... [--batches 8]

The AUCs of different runs are not comparable, since a stronger generator lowers them. Here all discriminators see the
held-out sequences of CORPUS with the replacements of one generator, that of GENERATOR_RUN.
"""

import argparse
from collections.abc import Iterator, Sequence

import torch

from electra.config.objectives import ElectraObjective
from electra.data.corpus.shards import open_corpus
from electra.data.feeding.loader import Loader
from electra.errors import CheckpointError
from electra.model.pretrained import as_discriminator, load
from electra.objectives.draws import draw
from electra.objectives.metrics import summarize
from electra.objectives.rtd import ReplacedTokenDetection

SEED, ROWS = 7, 128


@torch.inference_mode()
def judge(corpus: str, corrupter: str, runs: Sequence[str], batches: int) -> Iterator[tuple[str, dict[str, float]]]:
    """Yield the metrics of each run's discriminator against the generator of `corrupter`."""
    model = load(corrupter)
    if model.generator is None:
        raise CheckpointError(f"{corrupter} has no generator to corrupt the text with; name a run that has one")
    loader = Loader([open_corpus(corpus)], batch_size=ROWS, seed=SEED, split="heldout", device=model.device)
    texts = [loader.batch(number) for number in range(batches)]
    draws = [draw(SEED, number, *text.ids.shape, device=model.device) for number, text in enumerate(texts)]
    for run in runs:
        discriminator = as_discriminator(load(run).network)
        settings = ElectraObjective(mask_token_fraction=1.0)
        pair = ReplacedTokenDetection(settings, model.tokenizer, model.generator, discriminator).eval()
        yield run, summarize([pair(*given) for given in zip(texts, draws, strict=True)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", metavar="CORPUS")
    parser.add_argument("corrupter", metavar="GENERATOR_RUN")
    parser.add_argument("runs", metavar="RUN", nargs="+")
    parser.add_argument("--batches", type=int, default=8, help="number of batches of 128 sequences")
    for name, found in judge(**vars(parser.parse_args())):
        print(f"{name}: AUC {found['discriminator_auc']:.4f}, loss {found['discriminator_loss']:.4f}", flush=True)
