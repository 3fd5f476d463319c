"""Muon's part of an update: matrices inside the blocks are updated by orthogonal matrices (Jordan et al. 2024).

A gradient that is the same for every token has nearly rank one, and Adam follows it: the states of all tokens move
together. An orthogonal update moves all directions of a matrix equally far.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from electra.model import ops
from electra.model.body import Body

MOMENTUM = 0.95
ROUNDS = 5
ADAM_LENGTH = 0.2  # about the root mean square of AdamW's updates, so that both use the same rate (Liu et al. 2025)


def block_matrices(module: nn.Module) -> dict[str, int]:
    """Return the parameters of a module's encoders that Muon updates, with the number of matrices in each."""
    bodies = ((prefix, body) for prefix, body in module.named_modules() if isinstance(body, Body))
    named = ((f"{prefix}.{name}", count) for prefix, body in bodies for name, count in body.matrices().items())
    return {name.removeprefix("."): count for name, count in named}  # a body may be the module itself


class Muon(NamedTuple):
    """The settings of one update of matrices (N, rows, columns)."""

    scale: Tensor  # that the gradient is divided by
    rate: Tensor
    bad: Tensor  # 1 if the gradient is not finite, and nothing is to change, else 0
    factor: float  # multiple of the rate
    decay: float

    def update(self, values: Tensor, gradient: Tensor, means: Tensor, working: Tensor) -> None:
        """Update matrices and the running means of their gradients; `working` has the type of the forward pass."""
        length = ADAM_LENGTH * max(values.shape[-2:]) ** 0.5
        if ops.choose("muon", working) == "triton":
            from electra.model.kernels import muon

            ahead = muon.directions(gradient, means, self.scale, self.bad, MOMENTUM)
            muon.apply(values, orthogonalized(ahead), self.rate, self.bad, self.factor, length, self.decay)
            return
        gradient = (gradient / self.scale).nan_to_num_()
        means.lerp_(gradient, (1 - MOMENTUM) * (1 - self.bad))
        rate = self.rate * self.factor * (1 - self.bad)
        values.mul_(1 - rate * self.decay)
        ahead = gradient.lerp_(means, MOMENTUM)  # Nesterov momentum
        values.sub_(orthogonalized(normalized(ahead)).to(values.dtype) * length * rate)


def normalized(matrices: Tensor) -> Tensor:
    """Return (N, rows, columns) matrices of norm 1; on a GPU in bf16."""
    matrices = matrices / (torch.linalg.matrix_norm(matrices, keepdim=True) + 1e-12)
    return matrices.bfloat16() if matrices.is_cuda else matrices


def orthogonalized(x: Tensor) -> Tensor:
    """Bring the singular values of (N, rows, columns) matrices of norm 1 to between 0.7 and 1.2.

    Newton-Schulz: each round maps every singular value s to 3.4445 s - 4.7750 s³ + 2.0315 s⁵, which lets small ones
    grow fast and keeps large ones near one.
    """
    tall = x.size(-2) > x.size(-1)
    for _ in range(ROUNDS):
        square = x.mT @ x if tall else x @ x.mT
        grown = square @ _add_to_diagonal(2.0315 * square, -4.7750)
        _add_to_diagonal(grown, 3.4445)
        x = x @ grown if tall else grown @ x
    return x


def _add_to_diagonal(squares: Tensor, number: float) -> Tensor:
    squares.diagonal(dim1=-2, dim2=-1).add_(number)
    return squares
