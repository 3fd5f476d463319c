"""python frozen.py MODEL COMMAND... is `electra COMMAND...` whose generator starts from the masked LM in MODEL."""

import sys

from electra.cli import main
from electra.model.pretrained import load
from electra.recipes import pretrain

model, *command = sys.argv[1:]
make = pretrain.Pretraining._objective


def from_model(self):
    """Build the objective, then fill the generator."""
    objective = make(self)
    theirs = load(model, device="cpu").network
    objective.generator.encoder.adopt(theirs.encoder, "the generator")
    objective.generator.head.load_state_dict(theirs.head.state_dict())
    return objective


pretrain.Pretraining._objective = from_model
sys.argv = ["electra", *command]
main()
