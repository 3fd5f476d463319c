"""The kernels of the fused stacks as PyTorch's operations: what `bench_kernels.py` exchanges them for.

Each function takes the arguments of the kernel that it stands for, and writes to the same room. Where PyTorch's
operation allocates its result, that is one copy more than a stack without our kernels would need.
Shapes: B sequences, L tokens, T = B · L, H hidden size, F feed-forward size, D head size.
"""

from collections.abc import Callable
from functools import lru_cache, wraps
from types import ModuleType, SimpleNamespace
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.model import ops
from electra.model.bodies import electra_stack, modern_stack
from electra.model.bodies.modern import View, rotate
from electra.model.kernels import attention, gate, gelu, long_attention, norm
from electra.model.kernels.attention import Drop, Sight

Change = tuple[dict[str, Any], str, Any]  # a table of names, such as a module's, the name, and its new value
Result = TypeVar("Result")
aten = torch.ops.aten

_seen: dict[int, Any] = {}  # by the address of what a forward pass wrote: what its backward pass needs


def plainly(function: Callable[..., Result]) -> Callable[..., Result]:
    """Compute in the type of the tensors, as kernels do: autocast would widen norms."""

    @wraps(function)
    def computed(first: Tensor, *others: Any) -> Result:
        with torch.autocast(first.device.type, enabled=False):
            return function(first, *others)

    return computed


@plainly
def gate_forward(x: Tensor, out: Tensor) -> None:
    """Write gelu(a) · b (T, F) for [a, b] = x."""
    a, b = x.chunk(2, -1)
    torch.mul(F.gelu(a), b, out=out)


@plainly
def gate_backward(gradient: Tensor, x: Tensor, to_x: Tensor) -> None:
    """Write the gradient of x (T, 2F)."""
    (a, b), (to_a, to_b) = x.chunk(2, -1), to_x.chunk(2, -1)
    aten.gelu_backward.grad_input(gradient * b, a, grad_input=to_a)
    torch.mul(gradient, F.gelu(a), out=to_b)


@plainly
def bias_gelu(x: Tensor, bias: Tensor, out: Tensor) -> None:
    """Write gelu(x + bias), (T, F)."""
    aten.gelu.out(x + bias, out=out)


@plainly
def bias_gelu_backward(gradient: Tensor, x: Tensor, bias: Tensor, partial: Tensor) -> None:
    """Replace the output's gradient by that of x, and write the bias's."""
    aten.gelu_backward.grad_input(gradient, x + bias, grad_input=gradient)
    _write_sums(partial, gradient.sum(0, dtype=torch.float32))


@plainly
def add_and_norm(
    branch: Tensor, residual: Tensor | None, gain: Tensor, eps: float, summed: Tensor, out: Tensor, moments: Tensor,
    bias: Tensor | None = None, shift: Tensor | None = None, seeds: Tensor | None = None, chance: float = 0.0,
) -> None:  # fmt: skip
    """Write residual + dropout(branch + bias) and its norm, or dropout(norm(branch)) without a residual."""
    if residual is None:
        _normalize(branch, gain, shift, eps, out, moments)
        out.copy_(_drop(out, seeds, chance))
    else:
        biased = branch if bias is None else branch + bias
        torch.add(residual, _drop(biased, seeds, chance), out=summed)
        _normalize(summed, gain, shift, eps, out, moments)


@plainly
def add_and_norm_backward(
    gradient: Tensor, residual: Tensor | None, summed: Tensor, gain: Tensor, moments: Tensor, to_summed: Tensor,
    partial: Tensor, to_branch: Tensor | None = None, seeds: Tensor | None = None, chance: float = 0.0,
) -> None:  # fmt: skip
    """Write the gradients of the sum, the residual's included, and of the branch, and those of gain, shift and bias."""
    keep = _seen.pop(seeds.data_ptr()) if chance and seeds is not None else None
    if keep is not None and to_branch is None:
        gradient = aten.native_dropout_backward(gradient, keep, 1 / (1 - chance))
    shifts = partial.size(1) > len(gain)
    found, *to_vectors = _norm_backward(gradient, summed, gain, moments, shifts)
    to_summed.copy_(found) if residual is None else torch.add(found, residual, out=to_summed)
    to_bias = torch.zeros_like(gain)
    if to_branch is not None:
        dropped = found if keep is None else aten.native_dropout_backward(found, keep, 1 / (1 - chance))
        to_bias = to_branch.copy_(dropped).sum(0)
    _write_sums(partial, torch.cat([*to_vectors, to_bias]) if shifts else to_vectors[0])


@plainly
def attend(projected: Tensor, heads: int, sight: Sight, drop: Drop, out: Tensor, log_sum: Tensor) -> None:
    """Write attention (T, H) over projected states (B, L, 3H), rotated where they are to be."""
    mask = mask_of(sight, projected.size(1), projected.device)
    with torch.enable_grad():
        leaf = projected.data.requires_grad_()  # unlike a detached tensor, it may be overwritten later
        query, key, value = _parts(leaf, heads)
        if sight.rotation:
            view = _rotation(sight, projected.size(1))
            query, key = rotate(query, view), rotate(key, view)
        mixed = ops.attend(query, key, value, mask, ops.Dropout(drop.chance))
    _by_head(out, projected, heads).copy_(mixed.detach())
    _seen[log_sum.data_ptr()] = leaf, mixed


@plainly
def attend_backward(
    gradient: Tensor, projected: Tensor, out: Tensor, log_sum: Tensor, heads: int, sight: Sight, drop: Drop,
    to_projected: Tensor, partial: Tensor | None,
) -> None:  # fmt: skip
    """Write the gradient (T, 3H) of the projected states and, if asked to, its sum over the tokens."""
    leaf, mixed = _seen.pop(log_sum.data_ptr())
    (found,) = torch.autograd.grad(mixed, leaf, _by_head(gradient, projected, heads))
    to_projected.view_as(found).copy_(found)
    if partial is not None:
        _write_sums(partial, to_projected.sum(0, dtype=torch.float32))


def mask_of(sight: Sight, length: int, device: torch.device) -> Tensor | None:
    """Return which tokens see each other as a mask (B or 1, 1, L, L); None: all."""
    mask = None
    if sight.bounds is not None:
        begins = sight.bounds[0]
        mask = (begins[:, None, :, None] == begins[:, None, None, :]).contiguous()
    if 0 < sight.reach < length - 1:
        near = _window(length, sight.reach, device)
        mask = near if mask is None else mask & near
    return mask


class RotatedApart:
    """Attention by our kernels, but with rotations in passes of their own."""

    def __init__(self, projected: Tensor, heads: int) -> None:
        self.kernels = long_attention.attention_for(projected, heads)

    def attend(self, projected: Tensor, heads: int, sight: Sight, *others: Any) -> None:
        """Rotate queries and keys in place, then attend."""
        _turn(projected, heads, _rotation(sight, projected.size(1)))
        self.kernels.attend(projected, heads, sight._replace(rotation=None), *others)

    def attend_backward(
        self, gradient: Tensor, projected: Tensor, out: Tensor, log_sum: Tensor, heads: int, sight: Sight,
        drop: Drop, to_projected: Tensor, partial: Tensor | None,
    ) -> None:  # fmt: skip
        """Write the gradient of rotated queries and keys, then rotate it back."""
        still = sight._replace(rotation=None)
        self.kernels.attend_backward(gradient, projected, out, log_sum, heads, still, drop, to_projected, partial)
        cos, sin, _, _ = _rotation(sight, projected.size(1))
        _turn(to_projected.view_as(projected), heads, View(cos, -sin, None))


def weight_gradients(to_outputs: Tensor, inputs: Tensor) -> Tensor:
    """Return the weight gradients (layers, O, I), by one product for each layer."""
    found = inputs.new_empty(len(to_outputs), to_outputs.size(2), inputs.size(2))
    for layer, (left, right) in enumerate(zip(to_outputs, inputs, strict=True)):
        torch.mm(left.t(), right, out=found[layer])
    return found


def _named(module: ModuleType, **functions: Any) -> list[Change]:
    return [(vars(module), name, function) for name, function in functions.items()]


def _attention(stack: ModuleType, choose: Callable[[Tensor, int], Any]) -> list[Change]:
    return _named(stack, attention_for=choose)


PLAIN_ATTENTION = SimpleNamespace(
    attend=attend, attend_backward=attend_backward, backward_programs=attention.backward_programs
)
ADD_AND_NORM = _named(norm, add_and_norm=add_and_norm, add_and_norm_backward=add_and_norm_backward)
PARTS: dict[str, dict[str, list[Change]]] = {  # of each fused stack
    "pre_norm_stack": {
        "gate": _named(gate, gate=gate_forward, gate_backward=gate_backward),
        "sum and norm": ADD_AND_NORM,
        "rotation": _attention(modern_stack, RotatedApart),
        "attention": _attention(modern_stack, lambda projected, heads: PLAIN_ATTENTION),
        "weight gradients": _named(modern_stack, weight_gradients=weight_gradients),
    },
    "post_norm_stack": {
        "bias and gelu": _named(gelu, bias_gelu=bias_gelu, bias_gelu_backward=bias_gelu_backward),
        "dropout, sum and norm": ADD_AND_NORM,
        "attention": _attention(electra_stack, lambda projected, heads: PLAIN_ATTENTION),
        "weight gradients": _named(electra_stack, weight_gradients=weight_gradients),
    },
}


def _normalize(x: Tensor, gain: Tensor, shift: Tensor | None, eps: float, out: Tensor, moments: Tensor) -> None:
    normed, *found = torch.native_layer_norm(x, x.shape[-1:], gain, shift, eps)
    out.copy_(normed)
    for kept, moment in zip(moments, found, strict=True):
        kept[: len(x)].copy_(moment.view(-1))  # there may be more room than tokens


def _norm_backward(
    gradient: Tensor, x: Tensor, gain: Tensor, moments: Tensor, shifts: bool
) -> tuple[Tensor, Tensor, Tensor]:
    mean, deviation = moments[:, : len(x), None].unbind()
    shift = gain if shifts else None  # only whether there is one matters
    wanted = [True, True, shifts]
    found: tuple[Tensor, Tensor, Tensor] = aten.native_layer_norm_backward(
        gradient, x, x.shape[-1:], mean, deviation, gain, shift, wanted
    )
    return found


def _drop(x: Tensor, seeds: Tensor | None, chance: float) -> Tensor:
    if seeds is None or not chance:
        return x
    dropped, _seen[seeds.data_ptr()] = torch.native_dropout(x, chance, True)
    return dropped


def _write_sums(partial: Tensor, total: Tensor) -> None:
    """Write a sum as the first of partial sums (programs, width)."""
    partial.zero_()[0] = total


def _by_head(states: Tensor, projected: Tensor, heads: int) -> Tensor:
    """View joined heads (T, H) as (B, heads, L, D)."""
    return ops.split_heads(states.view(*projected.shape[:2], -1), heads)


def _parts(projected: Tensor, heads: int) -> Tensor:
    """View (B, L, 3H) as queries, keys and values (3, B, heads, L, D)."""
    return projected.view(*projected.shape[:2], 3, heads, -1).permute(2, 0, 3, 1, 4)


def _rotation(sight: Sight, length: int) -> View:
    assert sight.rotation
    if sight.bounds is None:
        cos, sin = (table[:length][None] for table in sight.rotation)
    else:
        positions = torch.arange(length, device=sight.bounds.device) - sight.bounds[0]
        cos, sin = (table[positions] for table in sight.rotation)
    return View(cos[:, None], sin[:, None], None)


def _turn(projected: Tensor, heads: int, view: View) -> None:
    """Rotate the queries and keys in (B, L, 3H) in place."""
    for part in _parts(projected, heads)[:2]:
        part.copy_(rotate(part, view))


@lru_cache(maxsize=8)
def _window(length: int, reach: int, device: torch.device) -> Tensor:
    place = torch.arange(length, device=device)
    return ((place[:, None] - place).abs() <= reach)[None, None]
