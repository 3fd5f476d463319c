"""How weights start, as in the original: truncated normal, or Glorot-uniform for projections and last layers.

Token embeddings may start from the text instead, which the original does not do.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

SMOOTHING = 0.75  # exponent of the frequency of neighbors


def normal_linear(inputs: int, outputs: int, std: float, bias: bool = True) -> nn.Linear:
    """Make a linear map that starts from a truncated normal, its bias from zero."""
    linear = nn.Linear(inputs, outputs, bias)
    truncated_normal_(linear.weight, std)
    if bias:
        nn.init.zeros_(linear.bias)
    return linear


def glorot_linear(inputs: int, outputs: int) -> nn.Linear:
    """Make a linear map that starts Glorot-uniform, its bias from zero."""
    linear = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(linear.weight)
    nn.init.zeros_(linear.bias)
    return linear


def truncated_normal_(weight: Tensor, std: float) -> None:
    """Draw from a normal distribution truncated at two standard deviations."""
    if weight.is_meta:  # PyTorch 2.11 would import its compiler
        return
    nn.init.trunc_normal_(weight, std=std, a=-2 * std, b=2 * std)


def cooccurrence_vectors(pairs: Tensor, size: int, std: float) -> Tensor:
    """Return (V, size) vectors of tokens: one half tells what follows a token in the text, the other what precedes it.

    `pairs` is a sparse (V, V) count of successive tokens. Its positive pointwise mutual information is factorized by a
    truncated SVD, as in Levy, Goldberg and Dagan (2015), whose smoothing of frequent neighbors is used too.
    """
    pairs = pairs.coalesce()
    (first, second), counts, rank = pairs.indices(), pairs.values(), min(size // 2, len(pairs))
    before, after = (counts.new_zeros(len(pairs)).index_add(0, index, counts) for index in (first, second))
    after = after**SMOOTHING
    information = (counts * after.sum() / (before[first] * after[second])).log().clamp(min=0)
    matrix = sparse_matrix(pairs.indices(), information, len(pairs), is_coalesced=True)
    factorize = torch.svd_lowrank if matrix.is_cuda else svd_lowrank
    left, weights, right = factorize(matrix, rank, niter=4)
    vectors = F.pad(torch.cat([left, right], dim=1) * weights.sqrt().repeat(2), (0, size - 2 * rank))
    vectors -= vectors.mean(0)
    return vectors * (std / vectors.std(0).mean().clamp(min=1e-12))  # zeros if no token tells anything of the next one


def svd_lowrank(matrix: Tensor, rank: int, niter: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same as `torch.svd_lowrank` of a sparse square matrix, whose products are slow on a CPU."""
    (rows, columns), values, size = matrix.indices(), matrix.values(), len(matrix)
    by_column = columns.int().argsort(stable=True)
    forth = _product(rows, columns, values, size)
    back = _product(columns[by_column], rows[by_column], values[by_column], size)
    basis = torch.linalg.qr(forth(torch.randn(size, rank))).Q
    for _ in range(niter):
        basis = torch.linalg.qr(back(basis)).Q
        basis = torch.linalg.qr(forth(basis)).Q
    left, weights, right = torch.linalg.svd(back(basis).T, full_matrices=False)
    return basis @ left, weights, right.T


def _product(rows: Tensor, columns: Tensor, values: Tensor, size: int) -> Callable[[Tensor], Tensor]:
    """Return a function that multiplies a sparse (size, size) matrix, sorted by rows, with a dense one."""
    counts = rows.bincount(minlength=size)
    starts = counts.cumsum(0) - counts
    return lambda dense: F.embedding_bag(columns, dense.contiguous(), starts, mode="sum", per_sample_weights=values)


def sparse_matrix(places: Tensor, values: Tensor, size: int, is_coalesced: bool = False) -> Tensor:
    """Return a sparse (size, size) matrix from places (2, N) and values (N,)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse invariant checks")  # torch 2.11 warns of what is asked for here
        return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=True, is_coalesced=is_coalesced)


class Undrawn(TorchFunctionMode):
    """Skips the initialization of embeddings, which on the meta device would import PyTorch's compiler."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if function is nn.init.normal_ else function(*args, **(kwargs or {}))
