"""python levers.py KIND SIZE COMMAND...: electra COMMAND with another change of fine-tuning.

KIND  reinit: the top SIZE blocks begin with random weights; ema: dev is scored with an average of the weights over the
      last updates, SIZE of all
"""

import sys

import torch

from electra.recipes import finetune

KIND, SIZE = sys.argv[1], float(sys.argv[2])
sys.argv[1:] = sys.argv[3:]
new_network, Seed = finetune.new_network, finetune._Seed


def _network(tuning):
    made = new_network(tuning)
    if KIND == "reinit":
        fresh = type(made.encoder)(made.encoder.config)
        for old, new in list(zip(made.encoder.layers, fresh.layers, strict=True))[-int(SIZE) :]:
            old.load_state_dict(new.state_dict())
        made.encoder.final_norm.load_state_dict(fresh.final_norm.state_dict())
    return made


class _Averaged(Seed):
    def _stream(self):
        self.mean = None
        decay = 1 - 1 / max(1, SIZE * self.tuning.steps)
        for made in super()._stream():
            yield made
            with torch.no_grad():  # asked for the next batch: the update is done
                weights = [p.detach() for p in self.network.parameters()]
                if self.mean is None:
                    self.mean = [w.clone() for w in weights]
                torch._foreach_lerp_(self.mean, weights, 1 - decay)

    def _score(self):
        with torch.no_grad():
            weights = list(self.network.parameters())
            last = [w.detach().clone() for w in weights]
            plain = super()._score()
            for w, m in zip(weights, self.mean, strict=True):
                w.copy_(m)
            found = super()._score()
            for w, m in zip(weights, last, strict=True):
                w.copy_(m)
        print("last", plain.metrics, "mean", found.metrics, flush=True)
        return found


finetune.new_network = _network
if KIND == "ema":
    finetune._Seed = _Averaged
from electra.cli import main  # noqa: E402

main()
