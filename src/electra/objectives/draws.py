"""The random numbers of a training step, drawn before it runs."""

from dataclasses import dataclass

import torch
from torch import Tensor

from electra.data.mix import mix


@dataclass(frozen=True)
class Draws:
    """Uniform numbers in [0, 1) for each token of B sequences, one set per decision."""

    order: Tensor  # (B, L) decides which tokens are masked
    keep: Tensor  # (B, L) decides which of them become [MASK]
    sample: Tensor  # (B, L) decides what the generator samples


def draw(
    seed: int, number: int, rows: int, length: int, *, part: int = 0, parts: int = 1, device: torch.device | str
) -> Draws:
    """Draw the random numbers for one part, of `rows` sequences, of batch `number`.

    They do not depend on the number of parts: each part draws numbers for the full batch and takes those of its rows.
    """
    source = torch.Generator(device).manual_seed(mix(seed, number))
    everything = torch.rand(3, rows * parts, length, generator=source, device=device)
    return Draws(*everything[:, part * rows : (part + 1) * rows])
