"""python polar.py COMMAND... is `electra COMMAND...` with the coefficients of Polar Express (Amsel et al. 2025)."""

import sys

from electra.cli import main
from electra.training import muon

ROUNDS = [
    (8.28721201814563, -23.595886519098837, 17.300387312530933),
    (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    (3.3184196573706015, -2.488488024314874, 0.51004894012372),
    (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
]
SAFETY = 1.01


def orthogonalized(x):
    """Bring the singular values of matrices of norm 1 closer to 1, each round with coefficients of its own."""
    tall = x.size(-2) > x.size(-1)
    for a, b, c in ROUNDS:
        a, b, c = a / SAFETY, b / SAFETY**3, c / SAFETY**5
        square = x.mT @ x if tall else x @ x.mT
        grown = square @ muon._add_to_diagonal(c * square, b)
        muon._add_to_diagonal(grown, a)
        x = x @ grown if tall else grown @ x
    return x


muon.orthogonalized = orthogonalized
sys.argv = ["electra", *sys.argv[1:]]
main()
