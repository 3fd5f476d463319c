"""The levers of this entry: python levers.py decay0|decay2|cuts COMMAND... is `electra COMMAND...` with one change.

decay0, decay2: the weight decay follows the rate to the power 0 or 2 instead of 1. cuts: the first sequence of each
document ends after one to four sentences, drawn with the environment variable VARIANT as seed.
"""

import os
import sys
from random import Random

from electra.cli import main
from electra.data.corpus import cut
from electra.training import optim


def change_decay(power: float) -> None:
    """Let the weight decay follow a power of the rate."""
    adamw, muon, update = optim.adamw, optim.Muon, optim.VectorOptimizer._update
    optim.adamw = lambda *arguments, **settings: adamw(*arguments, **settings | {"weight_decay": 0.0})
    optim.Muon = lambda scale, rate, bad, factor, decay: muon(scale, rate, bad, factor, 0.0)

    def decay_and_update(self, scale, bad):
        peak = self.config.learning_rate
        shrink = peak * (self.rate / peak) ** power * (power + 1) / 2  # without warm-up, the same sum for each power
        for group, part in self.own.items():
            self.weights.values[part].mul_(1 - shrink * group.factor * group.decay * (1 - bad))
        update(self, scale, bad)

    optim.VectorOptimizer._update = decay_and_update


class OtherCuts(cut.SentenceCut):
    """Cuts that begin elsewhere in each variant of a corpus."""

    def add(self, ids, sentence_tokens, first=True, last=True):
        if first:
            random = Random(int(ids[:64].astype("int64").sum()) * 7 + int(os.environ["VARIANT"]))
            sentences = random.randint(1, 4)
            head = int(sentence_tokens[:sentences].sum())
            if 0 < head < len(ids):
                yield from super().add(ids[:head], sentence_tokens[:sentences], True, False)
                yield from self.finish()
                ids, sentence_tokens, first = ids[head:], sentence_tokens[sentences:], False
        yield from super().add(ids, sentence_tokens, first, last)


lever, *command = sys.argv[1:]
if lever == "cuts":
    cut.CUTS["sentences"] = OtherCuts
else:
    change_decay(float(lever.removeprefix("decay")))
sys.argv = ["electra", *command]
main()
