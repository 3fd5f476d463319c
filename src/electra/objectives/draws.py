"""The random numbers of a step, drawn before it runs."""

from dataclasses import dataclass

import torch
from torch import Tensor


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


def mix(*numbers: int) -> int:
    """Hash whole numbers to 63 bits, so that neighbouring seeds and steps share nothing."""
    state = 0
    for number in numbers:  # the finaliser of splitmix64
        state = (state + number + 0x9E3779B97F4A7C15) & (2**64 - 1)
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        state ^= state >> 31
    return state >> 1
