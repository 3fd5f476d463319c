"""Weight gradients: matrix products over all tokens, for several layers at once.

One such product has only a few output tiles, each a sum over many tokens, and leaves most of a GPU idle.
"""

import torch
import triton
from torch import Tensor

from electra.model.kernels.launch import processors

TILE = 128  # rows and columns of a product per program, about what cuBLAS chooses
SHORTEST = 256  # tokens per part: with fewer, a product takes longer to write than to compute


def weight_gradients(to_outputs: Tensor, inputs: Tensor) -> Tensor:
    """Return the weight gradients (layers, O, I) of linear layers from output gradients (layers, T, O) and inputs.

    If there are too few tiles to fill the GPU, the tokens are split into parts. The products of the parts stay float32,
    like the accumulator of a single product, and are added in a fixed order.
    """
    layers, tokens, width = to_outputs.shape
    tiles = layers * triton.cdiv(width, TILE) * triton.cdiv(inputs.size(2), TILE)
    parts = count_parts(tiles, tokens, processors(inputs.device))
    if parts == 1:
        return torch.bmm(to_outputs.transpose(1, 2), inputs)
    left, right = (tensor.view(layers * parts, tokens // parts, -1) for tensor in (to_outputs, inputs))
    left = left.transpose(1, 2)
    if left.is_cuda:
        products = torch.bmm(left, right, out_dtype=torch.float32)
    else:  # CPU products have no out_dtype
        products = torch.bmm(left.float(), right.float())
    return products.view(layers, parts, width, -1).sum(1).to(inputs.dtype)


def count_parts(tiles: int, tokens: int, processors: int) -> int:
    """Return into how many parts, a power of two, to split the tokens so that each multiprocessor has work."""
    parts = 1
    while tiles * parts < processors and tokens % (2 * parts) == 0 and tokens >= 2 * parts * SHORTEST:
        parts *= 2
    return parts
