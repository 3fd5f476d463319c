"""Choosing tokens to mask, and writing tokens back into a sequence.

Shapes: B sequences, L tokens, N slots for masked tokens, enough for a full sequence.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from electra.config.objectives import Masking
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.objectives.draws import Draws


@dataclass(frozen=True)
class Masked:
    """A batch with some tokens masked."""

    ids: Tensor  # (B, L) with [MASK] in place of masked tokens
    positions: Tensor  # (B, N) of the chosen tokens
    weights: Tensor  # (B, N) 1 for a chosen token, 0 for an unused slot
    originals: Tensor  # (B, N) the chosen tokens
    hidden: Tensor  # (B, N) whether [MASK] replaces the chosen token

    @property
    def chosen(self) -> Tensor:
        """Return (B, L): 1 where a token was chosen, else 0."""
        nowhere = torch.zeros_like(self.ids, dtype=self.weights.dtype)
        return nowhere.scatter_reduce(1, self.positions, self.weights, "amax")


def slots(mask_fraction: float, length: int) -> int:
    """Return N: the number of masked tokens of a full sequence, with a small margin."""
    return min(length, max(1, int((mask_fraction + 0.005) * length)))


class Masker(nn.Module):
    """Chooses tokens to mask, but never [CLS], [SEP], [MASK] or padding."""

    starts_word: Tensor

    def __init__(self, config: Masking, tokenizer: Tokenizer) -> None:
        super().__init__()
        self.config = config
        self.mask_id = tokenizer.mask_id
        self.special_ids = (tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id)
        starts = tokenizer.word_starts() if config.whole_words else []
        self.register_buffer("starts_word", torch.tensor(starts, dtype=torch.bool), persistent=False)

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Masked:
        """Mask a batch."""
        candidates = self.candidates(batch)
        count = slots(self.config.mask_fraction, batch.ids.size(1))
        wanted = self._wanted(batch, candidates, count)
        if self.config.mask_draw == "with_replacement":
            positions, chosen = _with_replacement(candidates, wanted, draws.order[:, :count])
        elif self.config.whole_words:
            positions, chosen = _whole_words(candidates, self.starts_word[batch.ids], wanted, draws.order, count)
        else:
            positions, chosen = _distinct(candidates, wanted, draws.order, count)
        becomes_mask = chosen & (draws.keep[:, :count] < self.config.mask_token_fraction)
        hidden = torch.zeros_like(batch.ids).scatter_add(1, positions, becomes_mask.long()) > 0
        ids, originals = torch.where(hidden, self.mask_id, batch.ids), batch.ids.gather(1, positions)
        return Masked(ids, positions, chosen.float(), originals, hidden.gather(1, positions))

    def candidates(self, batch: Batch[Tensor]) -> Tensor:
        """Return which tokens (B, L) may be masked."""
        real = real_tokens(batch)
        for special in self.special_ids:
            real = real & (batch.ids != special)
        return real

    def _wanted(self, batch: Batch[Tensor], candidates: Tensor, count: int) -> Tensor:
        """Return how many tokens to mask (B, 1): a share of all, rounded half to even as in the original."""
        tokens = real_tokens(batch).sum(1, keepdim=True)  # including [CLS] and [SEP]
        wanted = (tokens.float() * self.config.mask_fraction).round().clamp(1, count)
        return torch.minimum(wanted.long(), candidates.sum(1, keepdim=True))


def real_tokens(batch: Batch[Tensor]) -> Tensor:
    """Return which positions (B, L) are not padding."""
    return torch.ones_like(batch.ids, dtype=torch.bool) if batch.attention is None else batch.attention != 0


def everywhere(batch: Batch[Tensor]) -> Tensor:
    """Return all positions (B, L) of each sequence."""
    return torch.arange(batch.ids.size(1), device=batch.ids.device).expand_as(batch.ids)


def _distinct(candidates: Tensor, wanted: Tensor, order: Tensor, count: int) -> tuple[Tensor, Tensor]:
    positions = torch.where(candidates, order, -1.0).topk(count, dim=1).indices
    return positions, torch.arange(count, device=order.device) < wanted


def _with_replacement(candidates: Tensor, wanted: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Draw each slot independently, as the original does; a position may be drawn twice."""
    number = candidates.long().cumsum(1)  # 1 for the first candidate, 2 for the second, …
    total = number[:, -1:]
    pick = (draws * total).long().clamp(max=(total - 1).clamp(min=0)) + 1
    positions = torch.searchsorted(number, pick).clamp(max=candidates.size(1) - 1)
    return positions, torch.arange(draws.size(1), device=draws.device) < wanted


def _whole_words(
    candidates: Tensor, starts: Tensor, wanted: Tensor, order: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Take words in random order, as long as all tokens of a word fit; one that never fits is taken token by token."""
    begins = starts | ~candidates  # a special token counts as a word
    begins[:, 0] = True  # even if the sequence starts inside a word
    _, size = _words(begins, candidates)
    begins = begins | (size > wanted)  # most of a text without spaces, whose pieces rarely begin a word
    word, size = _words(begins, candidates)
    of_first = torch.where(begins, order, 0.0)  # one random number per word, regardless of its length
    first = torch.zeros_like(order).scatter_reduce(1, word - 1, of_first, "amax")
    key = torch.where(candidates, first.gather(1, word - 1), -1.0)
    positions = key.sort(dim=1, descending=True, stable=True).indices[:, :count]
    slot = torch.arange(count, device=order.device).expand_as(positions)
    here, size = word.gather(1, positions), size.gather(1, positions)
    another = torch.cat([torch.ones_like(here[:, :1], dtype=torch.bool), here[:, 1:] != here[:, :-1]], dim=1)
    begin = torch.where(another, slot, 0).cummax(dim=1).values
    return positions, (begin + size <= wanted) & candidates.gather(1, positions)


def _words(begins: Tensor, candidates: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each token (B, L) the index of its word, from 1, and how many tokens of the word may be masked."""
    word = begins.long().cumsum(1)
    return word, torch.zeros_like(word).scatter_add(1, word - 1, candidates.long()).gather(1, word - 1)


def put_back(ids: Tensor, positions: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Write (B, N) tokens into (B, L) ids where their weight is not 0.

    If several tokens share a position, which only happens when drawing with replacement, the mean of their ids is
    written, rounded down as in the original.
    """
    used = (weights > 0).long()
    times = torch.zeros_like(ids).scatter_add(1, positions, used)
    summed = torch.zeros_like(ids).scatter_add(1, positions, used * tokens)
    return torch.where(times > 0, summed // times.clamp(min=1), ids)
