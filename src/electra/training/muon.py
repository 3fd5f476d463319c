"""Muon's part of an update: matrices inside the blocks are updated by orthogonal matrices (Jordan et al. 2024).

A gradient that is the same for every token has nearly rank one, and Adam follows it: the states of all tokens move
together. An orthogonal update moves all directions of a matrix equally far.
"""

import torch
from torch import Tensor, nn

from electra.model.body import Body

MOMENTUM = 0.95
ROUNDS = 5
ADAM_LENGTH = 0.2  # about the root mean square of AdamW's updates, so that both use the same rate (Liu et al. 2025)


def block_matrices(module: nn.Module) -> dict[str, int]:
    """Name the parameters of a module's encoders that Muon updates, and how many matrices are stacked in each."""
    bodies = ((prefix, body) for prefix, body in module.named_modules() if isinstance(body, Body))
    named = ((f"{prefix}.{name}", count) for prefix, body in bodies for name, count in body.matrices().items())
    return {name.removeprefix("."): count for name, count in named}  # a body may be the module itself


def orthogonal_step(directions: Tensor) -> Tensor:
    """Return nearly orthogonal (N, rows, columns) matrices, as long as an update of AdamW at rate one."""
    length: float = ADAM_LENGTH * max(directions.shape[-2:]) ** 0.5
    return orthogonalized(directions) * length


def orthogonalized(matrices: Tensor) -> Tensor:
    """Bring the singular values of (N, rows, columns) matrices to between 0.7 and 1.2.

    Newton-Schulz: each round maps every singular value s to 3.4445 s - 4.7750 s³ + 2.0315 s⁵, which lets small ones
    grow fast and keeps large ones near one.
    """
    x: Tensor = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-12)
    x = x.bfloat16() if x.is_cuda else x
    tall = x.size(-2) > x.size(-1)
    for _ in range(ROUNDS):
        square = x.mT @ x if tall else x @ x.mT
        grown = torch.baddbmm(square, square, square, beta=-4.7750, alpha=2.0315)
        x = torch.baddbmm(x, x, grown, beta=3.4445) if tall else torch.baddbmm(x, grown, x, beta=3.4445)
    return x.to(matrices.dtype)
