"""Losses of sentence vectors, equal to those of sentence-transformers.

Shapes: N examples of G texts (the first text, the one like it, negatives), H numbers in a vector. Examples of weight 0
and negatives of number -1 are padding.
"""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.tasks.base import mean_where


def contrast(vectors: Tensor, texts: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """Return how badly first texts (N, G, H) find their second ones, and these the first (InfoNCE in both directions).

    The second texts and negatives of all examples compete, except those that are known to be right: `texts` (N, G)
    are numbers of texts, and a competitor does not count if it repeats one of the pair's texts or belongs to the
    same first text.
    """
    vectors, count = F.normalize(vectors.float(), dim=-1), len(vectors)
    candidates, numbers = vectors[:, 1:].transpose(0, 1).flatten(0, 1), texts[:, 1:].T.flatten()
    with torch.autocast(vectors.device.type, enabled=False):  # the temperature multiplies errors of rounding
        scores = vectors[:, 0] @ candidates.T / temperature  # (N, (G - 1)N), second texts before negatives
    right = scores.diagonal()
    alike = (numbers == texts[:, :1]) | (numbers == texts[:, 1:2])
    same_first = texts[:, :1] == texts[:, 0]
    alike = alike | F.pad(same_first, (0, alike.size(1) - count))
    absent = weights[:, None].eq(0) | weights.eq(0).repeat(texts.size(1) - 1) | numbers.lt(0)
    own = torch.eye(count, alike.size(1), dtype=torch.bool, device=scores.device)
    scores = scores.masked_fill((alike | absent) & ~own, -torch.inf)
    losses = (scores.logsumexp(1) + scores[:, :count].logsumexp(0)) / 2 - right
    return mean_where(losses, weights)


def rank(vectors: Tensor, scores: Tensor, weights: Tensor, temperature: float) -> Tensor:
    """Return how badly the cosines of pairs (N, 2, H) have the order of their scores (N,): CoSENT."""
    cosines = F.cosine_similarity(vectors[:, 0].float(), vectors[:, 1].float(), dim=-1) / temperature
    wrong = cosines - cosines[:, None]  # (N, N) how much more similar the second pair is than the first
    counts = (scores[:, None] > scores) & weights[:, None].gt(0) & weights.gt(0)
    return F.pad(wrong.masked_fill(~counts, -torch.inf).flatten(), (1, 0)).logsumexp(0)


def of_sizes(loss: Callable[[Tensor], Tensor], vectors: Tensor, sizes: Sequence[int]) -> Tensor:
    """Return the sum of a loss over vectors (N, G, H) of full and of smaller sizes: Matryoshka."""
    return torch.stack([loss(vectors[..., :size]) for size in (*sizes, vectors.size(-1))]).sum()
