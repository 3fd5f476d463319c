"""How weights start, as in the original: truncated normal, or Glorot-uniform for projections and last layers.

Token embeddings may start from the text instead, which the original does not do.
"""

import warnings
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
    matrix = sparse_matrix(pairs.indices(), information, len(pairs))
    left, weights, right = torch.svd_lowrank(matrix, rank, niter=4)
    vectors = F.pad(torch.cat([left, right], dim=1) * weights.sqrt().repeat(2), (0, size - 2 * rank))
    vectors -= vectors.mean(0)
    return vectors * (std / vectors.std(0).mean())


def sparse_matrix(places: Tensor, values: Tensor, size: int) -> Tensor:
    """Return a sparse (size, size) matrix from places (2, N) and values (N,)."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse invariant checks")  # torch 2.11 warns of what is asked for here
        return torch.sparse_coo_tensor(places, values, (size, size), check_invariants=True)


class Undrawn(TorchFunctionMode):
    """Skips the initialization of embeddings, which on the meta device would import PyTorch's compiler."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if function is nn.init.normal_ else function(*args, **(kwargs or {}))
