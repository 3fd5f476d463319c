"""Gradients of weights: products over all tokens, for several layers at once.

A single product of this kind is small and long: a few tiles, each the sum of many tokens, leave most of a GPU idle.
"""

import torch
import triton
from torch import Tensor

from electra.model.kernels.launch import processors, sum_rows

TILE = 128  # rows and columns of a product that are one program's, about what cuBLAS chooses
SHORTEST = 256  # tokens of a part: of fewer, a product takes longer to write than to compute


def weight_gradients(to_outputs: Tensor, inputs: Tensor) -> Tensor:
    """Give the gradients (layers, O, I) of linear maps from those of their outputs (layers, T, O) and their inputs.

    Where the products are too few for the GPU, the tokens are cut into parts, whose products are added in a fixed
    order; they are float32 until then, as the sum inside of a product is.
    """
    layers, tokens, width = to_outputs.shape
    tiles = layers * triton.cdiv(width, TILE) * triton.cdiv(inputs.size(2), TILE)
    parts = count_parts(tiles, tokens, processors(inputs.device))
    if parts == 1:
        return torch.bmm(to_outputs.transpose(1, 2), inputs)
    left, right = (tensor.view(layers * parts, tokens // parts, -1) for tensor in (to_outputs, inputs))
    partial = _float32_products(left.transpose(1, 2), right).view(layers, parts, -1)
    return sum_rows(partial, inputs.dtype).view(layers, width, -1)


def count_parts(tiles: int, tokens: int, processors: int) -> int:
    """Give into how many parts, a power of two, tokens are cut so that each processor has a program."""
    parts = 1
    while tiles * parts < processors and tokens % (2 * parts) == 0 and tokens >= 2 * parts * SHORTEST:
        parts *= 2
    return parts


def _float32_products(left: Tensor, right: Tensor) -> Tensor:
    if left.is_cuda:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left.float(), right.float())  # a CPU has no products of another type than their factors
