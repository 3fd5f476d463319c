"""Muon's part of an update: the matrices inside of the blocks move along orthogonal ones (Jordan et al. 2024).

A gradient that says the same of every token is nearly of rank one, and Adam follows it: the states of all tokens move
together. Made orthogonal, an update gives every direction of a matrix the same length.
"""

import re

import torch
from torch import Tensor

MOMENTUM = 0.95
ROUNDS = 5
ADAM_LENGTH = 0.2  # root mean square of AdamW's updates at rate one, or so: both bear the same rate (Liu et al. 2025)


def block_matrix(name: str, weight: Tensor) -> tuple[int, int] | None:
    """Give the shape of the matrices that a weight inside of a block holds: attention's first one holds three."""
    if weight.dim() != 2 or not re.search(r"\blayers\.\d+\.", name):
        return None
    rows, columns = weight.shape
    return (rows // 3 if ".query_key_value." in name else rows), columns


def orthogonal_step(directions: Tensor) -> Tensor:
    """Turn (N, rows, columns) matrices into orthogonal ones, about, as long as an update of AdamW at rate one."""
    length: float = ADAM_LENGTH * max(directions.shape[-2:]) ** 0.5
    return orthogonalized(directions) * length


def orthogonalized(matrices: Tensor) -> Tensor:
    """Bring the singular values of (N, rows, columns) matrices to between 0.7 and 1.2.

    Newton-Schulz: each round takes every singular value s to 3.4445 s - 4.7750 s³ + 2.0315 s⁵, which makes small ones
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
