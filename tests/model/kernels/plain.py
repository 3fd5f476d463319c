"""Reference implementations of the kernels in plain PyTorch, with the same dropout."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.model.bodies.electra_stack import Settings
from electra.model.kernels.dropout import threshold

WORD = 2**32 - 1


def kept(seeds: Tensor, shape: torch.Size, chance: float) -> Tensor:
    """Return which numbers of a tensor are kept; its last dimension holds the columns, all others the rows."""
    rows, columns = shape[:-1].numel(), shape[-1]
    of_row = hashed(torch.arange(rows, device=seeds.device), seeds[0])
    of_column = hashed(torch.arange(columns, device=seeds.device), seeds[1]) | 1
    return ((of_row[:, None] * of_column & WORD) >= threshold(chance)).view(shape)


def hashed(place: Tensor, seed: Tensor) -> Tensor:
    """Hash positions to 32-bit words."""
    mixed = place ^ (seed.long() & WORD)
    mixed = (mixed ^ (mixed >> 16)) * 0x7FEB352D & WORD
    mixed = (mixed ^ (mixed >> 15)) * 0x846CA68B & WORD
    return mixed ^ (mixed >> 16)


def add_and_norm(
    branch: Tensor,
    bias: Tensor,
    residual: Tensor,
    gain: Tensor,
    shift: Tensor,
    seeds: Tensor,
    chance: float,
    eps: float,
) -> Tensor:
    """Return norm(residual + dropout(branch + bias))."""
    added = (branch + bias) * kept(seeds, branch.shape, chance) / (1 - chance)
    return F.layer_norm(residual + added, residual.shape[-1:], gain, shift, eps)


def normalize(summed: Tensor, gain: Tensor, shift: Tensor, seeds: Tensor, chance: float, eps: float) -> Tensor:
    """Return dropout(norm(summed))."""
    normal = F.layer_norm(summed, summed.shape[-1:], gain, shift, eps)
    return normal * kept(seeds, summed.shape, chance) / (1 - chance)


def bias_gelu(x: Tensor, bias: Tensor) -> Tensor:
    """Return gelu(x + bias)."""
    return F.gelu(x + bias)


def attend(projected: Tensor, heads: int, texts: Tensor | None, seeds: Tensor, chance: float, reach: int = 0) -> Tensor:
    """Compute attention (B, L, H) over projected states (B, L, 3H)."""
    query, key, value = projected.unflatten(-1, (3, heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
    scores = query @ key.transpose(-1, -2) / math.sqrt(query.size(-1))
    if texts is not None:
        scores = scores.masked_fill(texts[:, None, :, None] != texts[:, None, None, :], -torch.inf)
    if reach:
        place = torch.arange(projected.size(1), device=projected.device)
        scores = scores.masked_fill((place[:, None] - place).abs() > reach, -torch.inf)
    share = F.softmax(scores, -1) * kept(seeds, scores.shape, chance) / (1 - chance)
    return (share @ value).transpose(1, 2).flatten(2)


def run_blocks(x: Tensor, weights: list[Tensor], texts: Tensor | None, seeds: Tensor, settings: Settings) -> Tensor:
    """Run states (B, L, H) through blocks of 12 weights each, in order of use."""
    heads, share_dropout, dropout, eps = settings
    for layer, (attention, branch, last) in enumerate(seeds):
        qkv, qkv_bias, output, output_bias, gain, shift = weights[12 * layer : 12 * layer + 6]
        mixed = attend(F.linear(x, qkv, qkv_bias), heads, texts, attention, share_dropout)
        x = add_and_norm(F.linear(mixed, output), output_bias, x, gain, shift, branch, dropout, eps)
        expand, expand_bias, contract, contract_bias, gain, shift = weights[12 * layer + 6 : 12 * layer + 12]
        active = bias_gelu(F.linear(x, expand), expand_bias)
        x = add_and_norm(F.linear(active, contract), contract_bias, x, gain, shift, last, dropout, eps)
    return x


def cross_entropy(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row's negative log-likelihood of its target, and its most likely token."""
    return F.cross_entropy(logits.float(), targets, reduction="none"), logits.detach().argmax(-1)


def sample(logits: Tensor, uniform: Tensor, temperature: float, forbidden: Tensor | None) -> Tensor:
    """Sample a token from each row by inverting its cumulative distribution."""
    logits = logits.float() / temperature
    if forbidden is not None:
        logits = logits.scatter(-1, forbidden[..., None], -torch.inf)
    cumulative = logits.softmax(-1).cumsum(-1)
    goal = uniform[..., None] * cumulative[..., -1:]
    return torch.searchsorted(cumulative, goal, right=True).squeeze(-1).clamp(max=logits.size(-1) - 1)
