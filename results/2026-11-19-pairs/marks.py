"""python marks.py SCALE COMMAND... is `electra COMMAND...` whose body `modern` marks the tokens of a second text.

The mark is a fixed random vector with a deviation of SCALE / 2, added to the normalized embeddings, which have 0.58
in the packaged model.
"""

import sys

import torch

from electra.cli import main
from electra.model.bodies.modern import ModernBody, ModernEmbeddings

_, scale, *command = sys.argv
embed, run = ModernEmbeddings.forward, ModernBody.forward
marked = []  # token types of the texts that are being read


def with_mark(self, ids):
    """Embed ids, and mark those of a second text."""
    hidden = embed(self, ids)
    mark = torch.randn(hidden.size(-1), generator=torch.Generator().manual_seed(1)) * float(scale) / 2
    return hidden + marked[-1][..., None].to(hidden) * mark.to(hidden) if marked else hidden


def with_types(self, ids, attention=None, types=None):
    """Run the body with the token types that it otherwise ignores."""
    if types is not None:
        marked.append(types)
    try:
        return run(self, ids, attention, types)
    finally:
        marked.clear()


ModernEmbeddings.forward, ModernBody.forward = with_mark, with_types
sys.argv = ["electra", *command]
main()
