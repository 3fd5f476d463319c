"""The random numbers of a step, drawn before it runs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from electra.data.mix import mix


@dataclass(frozen=True)
class Draws:
    """Uniform numbers in [0, 1) for each token of B sequences, one set for each decision."""

    order: Tensor  # (B, L) which tokens are masked
    keep: Tensor  # (B, L) which of them become [MASK]
    sample: Tensor  # (B, L) what the generator proposes


def draw(
    seed: int, number: int, rows: int, length: int, *, part: int = 0, parts: int = 1, device: torch.device | str
) -> Draws:
    """Draw for the `rows` sequences of a part of the batch of that number.

    A sequence gets the same numbers whatever the count of parts: each draws for the whole batch and takes its rows.
    """
    source = torch.Generator(device).manual_seed(mix(seed, number))
    everything = torch.rand(3, rows * parts, length, generator=source, device=device)
    return Draws(*everything[:, part * rows : (part + 1) * rows])
