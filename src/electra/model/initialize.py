"""How weights start, as in the original: truncated normal, or Glorot-uniform for projections and last layers."""

from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


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


class Undrawn(TorchFunctionMode):
    """Skips the initialization of embeddings, which on the meta device would import PyTorch's compiler."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return None if function is nn.init.normal_ else function(*args, **(kwargs or {}))
