"""Operations that have a faster implementation than PyTorch's own, and the one place that chooses between them.

Plain is PyTorch and the reference of every test. CPU is hand-written for training there in float32. Triton serves bf16
on a GPU: weights are bf16 only where a run asked for it, so the type of a tensor decides. In a graph for onnxruntime,
attention and projections have the form that it computes fastest.
Shapes: B sequences, L tokens, N masked positions, E embedding size, V vocabulary.
"""

import importlib.util
import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from electra.model import cpu
from electra.model.kernels import DROPOUTS, has_bf16

Implementation = Literal["plain", "cpu", "triton"]
FASTER: dict[str, Implementation] = {  # what replaces the plain implementation where it can
    "post_norm_stack": "triton",  # all blocks of the body electra as one operation
    "pre_norm_stack": "triton",  # all blocks of the body modern
    "norm": "triton",
    "norm_and_drop": "triton",
    "dropout": "cpu",
    "attend": "cpu",
    "token_logits": "triton",
    "cross_entropy": "triton",
    "sample": "triton",
    "muon": "triton",
}
# Not cuDNN: on Hopper its gradient can be NaN for masks of 64, 192, 320 … tokens (pytorch/pytorch#196678).
MASKED = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
TRITON = importlib.util.find_spec("triton") is not None


def prepare(device: torch.device) -> None:
    """Let Triton read all of its library in the background, as it does before the first kernel: it takes a while."""
    if TRITON and device.type == "cuda":
        threading.Thread(target=_identify_triton).start()


def choose(operation: str, tensor: Tensor) -> Implementation:
    """Return the implementation of an operation on a tensor."""
    faster = FASTER[operation]
    serves = _triton_serves(tensor) if faster == "triton" else _cpu_serves(tensor)
    return faster if serves else "plain"


def table(device: torch.device, dtype: torch.dtype) -> dict[str, Implementation]:
    """Return the implementation of every operation in training on a device, with weights of a type."""
    example = torch.empty(1, device=device, dtype=dtype)
    return {operation: choose(operation, example) for operation in FASTER}


def dropout_seeds(layers: int, device: torch.device) -> Tensor:
    """Draw the seeds (layers, DROPOUTS, 2) that the Triton kernels derive their dropout from."""
    return torch.randint(-(2**31), 2**31, (layers, DROPOUTS, 2), dtype=torch.int32, device=device)


class Dropout(nn.Dropout):
    """Dropout."""

    def forward(self, hidden: Tensor) -> Tensor:
        if self.training and self.p and choose("dropout", hidden) == "cpu":
            return cpu.dropout(hidden, self.p)
        return super().forward(hidden)


def norm(states: Tensor, norm: nn.LayerNorm) -> Tensor:
    """Return the norm of (…, H) states."""
    if norm.bias is None and choose("norm", states) == "triton":
        from electra.model.kernels.norm import normalize

        return normalize(states, norm)
    normed: Tensor = norm(states)
    return normed


def norm_and_drop(summed: Tensor, norm: nn.LayerNorm, dropout: Dropout) -> Tensor:
    """Return dropout(norm(summed)) of (B, L, E)."""
    if choose("norm_and_drop", summed) == "triton":
        from electra.model.kernels.norm import normalize

        seeds = dropout_seeds(1, summed.device)[0, 0]
        return normalize(summed, norm, seeds, dropout.p if dropout.training else 0.0)
    dropped: Tensor = dropout(norm(summed))
    return dropped


def project(states: Tensor, linear: nn.Linear, parts: int) -> Sequence[Tensor]:
    """Return the equal parts of a projection of (…, H) states."""
    if not torch.compiler.is_exporting():
        projected: Tensor = linear(states)
        return projected.chunk(parts, dim=-1)
    size = linear.out_features // parts  # onnxruntime copies parts of a product, so each is a product of its own
    rows = [slice(at, at + size) for at in range(0, linear.out_features, size)]
    return [F.linear(states, linear.weight[part], None if linear.bias is None else linear.bias[part]) for part in rows]


def split_heads(states: Tensor, heads: int) -> Tensor:
    """Turn (B, L, heads · D) into (B, heads, L, D)."""
    return states.view(*states.shape[:2], heads, -1).transpose(1, 2)


def join_heads(states: Tensor) -> Tensor:
    """Turn (B, heads, L, D) into (B, L, heads · D)."""
    return states.transpose(1, 2).flatten(2)


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: Dropout) -> Tensor:
    """Mix values (B, heads, L, D) by softmax(query · key / √D) where the boolean mask allows it."""
    if torch.compiler.is_exporting():  # one operation of ONNX, which takes joined heads
        heads, (query, key, value) = query.size(1), map(join_heads, (query, key, value))
        mixed = torch.onnx.ops.attention(query, key, value, mask, q_num_heads=heads, kv_num_heads=heads)[0]
        return split_heads(mixed, heads)
    chance = dropout.p if dropout.training else 0.0
    if chance and choose("attend", query) == "cpu":  # without dropout PyTorch has a fast path on a CPU too
        return cpu.attend(query, key, value, mask, dropout)
    if mask is None or not query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=chance)
    with sdpa_kernel(MASKED):
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=chance)


def token_logits(states: Tensor, vocabulary: Tensor, bias: Tensor) -> Tensor:
    """Return (B, N, V) logits of (B, N, E) states: in the kernels' type from the kernel, else in float32."""
    if choose("token_logits", vocabulary) == "triton":
        from electra.model.kernels.vocabulary import logits

        return logits(states.to(vocabulary.dtype), vocabulary, bias)
    return F.linear(states, vocabulary, bias).float()


def cross_entropy(logits: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return the (B, N) negative log-likelihoods of tokens under (B, N, V) logits, and the likeliest tokens."""
    if choose("cross_entropy", logits) == "triton":
        from electra.model.kernels import vocabulary

        nll, best = vocabulary.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        return nll.view_as(tokens), best.view_as(tokens)
    nll = F.cross_entropy(logits.float().flatten(0, 1), tokens.flatten(), reduction="none")
    return nll.view_as(tokens), logits.detach().max(-1).indices


def sample(logits: Tensor, draws: Tensor, temperature: float = 1.0, forbidden: Tensor | None = None) -> Tensor:
    """Sample (B, N) tokens from (B, N, V) logits with one uniform number each; no gradient passes.

    Inverts the cumulative distribution: the same law as Gumbel noise, for one random number instead of V.
    """
    if choose("sample", logits) == "triton":
        from electra.model.kernels import vocabulary

        banned = None if forbidden is None else forbidden.flatten()
        rows, uniform = logits.detach().flatten(0, 1), draws.flatten()
        return vocabulary.sample(rows, uniform, temperature, banned).view_as(draws)
    cumulative = sampled_from(logits.detach(), temperature, forbidden).softmax(-1).cumsum(-1)
    threshold = draws[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, threshold, right=True).squeeze(-1).clamp(max=logits.size(-1) - 1)


def sampled_from(logits: Tensor, temperature: float, forbidden: Tensor | None = None) -> Tensor:
    """Return the (B, N, V) logits that are sampled from: sharper or flatter, without the forbidden (B, N) tokens."""
    logits = logits.float() / temperature
    return logits if forbidden is None else logits.scatter(-1, forbidden[..., None], -torch.inf)


def _identify_triton() -> None:
    """Compute what Triton caches: the key of its version, part of the key of every kernel."""
    with suppress(ImportError):  # not part of its public interface
        from triton.runtime.cache import triton_key

        triton_key()


def _triton_serves(tensor: Tensor) -> bool:
    """True for bf16 on a GPU that multiplies it, and for everything in Triton's interpreter."""
    if os.environ.get("TRITON_INTERPRET") == "1":
        return TRITON
    bf16 = tensor.is_cuda and tensor.dtype == torch.bfloat16 and not torch.compiler.is_compiling()
    return TRITON and bf16 and has_bf16(tensor.device)


def _cpu_serves(tensor: Tensor) -> bool:
    """True for float32 on a CPU where a gradient will be wanted; PyTorch is as fast elsewhere."""
    plain = tensor.device.type == "cpu" and tensor.dtype == torch.float32
    return plain and torch.is_grad_enabled() and not torch.compiler.is_compiling()
