"""Which tokens are hidden from the generator, and how tokens are put back into a sequence.

Shapes: B sequences, L tokens, N slots for masked tokens: as many as a full sequence can need.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from electra.config.schema import Masking
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.objectives.draws import Draws


@dataclass(frozen=True)
class Masked:
    """A batch with some tokens hidden."""

    ids: Tensor  # (B, L) with [MASK] in
    positions: Tensor  # (B, N) where the chosen tokens stand
    weights: Tensor  # (B, N) 1 for a chosen token, 0 for a slot that the sequence does not need
    originals: Tensor  # (B, N) the chosen tokens
    hidden: Tensor  # (B, N) whether [MASK] stands in their place

    @property
    def chosen(self) -> Tensor:
        """Give (B, L): 1 where a token was chosen, else 0."""
        nowhere = torch.zeros_like(self.ids, dtype=self.weights.dtype)
        return nowhere.scatter_reduce(1, self.positions, self.weights, "amax")


def slots(mask_fraction: float, length: int) -> int:
    """Give N: the masked tokens of a full sequence, and a little room."""
    return min(length, max(1, int((mask_fraction + 0.005) * length)))


class Masker(nn.Module):
    """Chooses tokens to mask: never [CLS], [SEP], [MASK] or padding."""

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
        return Masked(
            ids=torch.where(hidden, self.mask_id, batch.ids),
            positions=positions,
            weights=chosen.float(),
            originals=batch.ids.gather(1, positions),
            hidden=hidden.gather(1, positions),
        )

    def candidates(self, batch: Batch[Tensor]) -> Tensor:
        """Tell (B, L) which tokens may be masked."""
        real = real_tokens(batch)
        for special in self.special_ids:
            real = real & (batch.ids != special)
        return real

    def _wanted(self, batch: Batch[Tensor], candidates: Tensor, count: int) -> Tensor:
        """Give (B, 1): the share of all tokens, [CLS] and [SEP] too, rounded half to even as in the original."""
        tokens = real_tokens(batch).sum(1, keepdim=True)
        wanted = (tokens.float() * self.config.mask_fraction).round().clamp(1, count)
        return torch.minimum(wanted.long(), candidates.sum(1, keepdim=True))


def real_tokens(batch: Batch[Tensor]) -> Tensor:
    """Tell (B, L) which places are no padding."""
    return torch.ones_like(batch.ids, dtype=torch.bool) if batch.attention is None else batch.attention != 0


def everywhere(batch: Batch[Tensor]) -> Tensor:
    """Give (B, L): every position of each sequence."""
    return torch.arange(batch.ids.size(1), device=batch.ids.device).expand_as(batch.ids)


def _distinct(candidates: Tensor, wanted: Tensor, order: Tensor, count: int) -> tuple[Tensor, Tensor]:
    positions = torch.where(candidates, order, -1.0).topk(count, dim=1).indices
    return positions, torch.arange(count, device=order.device) < wanted


def _with_replacement(candidates: Tensor, wanted: Tensor, draws: Tensor) -> tuple[Tensor, Tensor]:
    """Draw each slot anew, as the original does; a position may come twice."""
    number = candidates.long().cumsum(1)  # 1 for the first candidate, 2 for the second, …
    total = number[:, -1:]
    pick = (draws * total).long().clamp(max=(total - 1).clamp(min=0)) + 1
    positions = torch.searchsorted(number, pick).clamp(max=candidates.size(1) - 1)
    return positions, torch.arange(draws.size(1), device=draws.device) < wanted


def _whole_words(
    candidates: Tensor, starts: Tensor, wanted: Tensor, order: Tensor, count: int
) -> tuple[Tensor, Tensor]:
    """Take words in random order for as long as they fit whole."""
    begins = starts | ~candidates  # a special token is a word of its own
    begins[:, 0] = True  # also where the sequence was cut inside a word
    word = begins.long().cumsum(1)  # (B, L) number of the word
    size = torch.zeros_like(word).scatter_add(1, word - 1, candidates.long()).gather(1, word - 1)
    of_first = torch.where(begins, order, 0.0)  # one number a word, whatever its length
    first = torch.zeros_like(order).scatter_reduce(1, word - 1, of_first, "amax")
    key = torch.where(candidates, first.gather(1, word - 1), -1.0)
    positions = key.sort(dim=1, descending=True, stable=True).indices[:, :count]
    slot = torch.arange(count, device=order.device).expand_as(positions)
    here, size = word.gather(1, positions), size.gather(1, positions)
    another = torch.cat([torch.ones_like(here[:, :1], dtype=torch.bool), here[:, 1:] != here[:, :-1]], dim=1)
    begin = torch.where(another, slot, 0).cummax(dim=1).values
    return positions, (begin + size <= wanted) & candidates.gather(1, positions)


def put_back(ids: Tensor, positions: Tensor, tokens: Tensor, weights: Tensor) -> Tensor:
    """Write (B, N) tokens into (B, L) ids where their weight is not 0.

    Where two different tokens meet at one position, their mean, rounded down, is written: the original does so, and it
    can happen in its with-replacement draw alone.
    """
    used = (weights > 0).long()
    times = torch.zeros_like(ids).scatter_add(1, positions, used)
    summed = torch.zeros_like(ids).scatter_add(1, positions, used * tokens)
    return torch.where(times > 0, summed // times.clamp(min=1), ids)
