"""Human-readable samples: the tokens of a few sequences and what the networks made of them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.objectives.base import Step

SEQUENCES, TOKENS = 4, 40  # enough for a quick look


@dataclass(frozen=True)
class Sample:
    """An excerpt of text as tokens; a token that begins a word has a leading space."""

    original: list[str]
    shown: list[str]  # what the main network read: at masked positions, the generator's samples or [MASK]
    replaced: list[float | None] | None  # a discriminator's probability that each token was replaced
    predicted: list[str | None] | None  # tokens predicted by a main network that predicts tokens


def take_samples(step: Step, batch: Batch[Tensor], tokenizer: Tokenizer) -> list[Sample]:
    """Return samples of a step from the sequences that begin with the longest excerpts of one document."""
    ends = (batch.ids == tokenizer.sep_id) | (batch.ids == tokenizer.pad_id)
    lengths = torch.where(ends.any(1), ends.int().argmax(1), batch.ids.size(1)).clamp(max=TOKENS + 1)
    chosen = lengths.sort(descending=True, stable=True).indices[:SEQUENCES]
    return [_sample(step, batch, tokenizer, row, int(lengths[row])) for row in chosen.tolist()]


def _sample(step: Step, batch: Batch[Tensor], tokenizer: Tokenizer, row: int, end: int) -> Sample:
    def spell(ids: Tensor) -> list[str]:
        return [tokenizer.spell(number) for number in ids[row, 1:end].tolist()]  # without [CLS]

    replaced = predicted = None
    if verdicts := step.verdicts:
        counted = (verdicts.weights[row, 1:end] > 0).tolist()
        likely = verdicts.scores[row, 1:end].sigmoid().tolist()
        replaced = [round(value, 3) if counts else None for value, counts in zip(likely, counted, strict=True)]
    if main := step.main:
        used = main.weights[row] > 0
        tokens = dict(zip(main.positions[row, used].tolist(), main.best[row, used].tolist(), strict=True))
        predicted = [tokenizer.spell(tokens[place]) if place in tokens else None for place in range(1, end)]
    return Sample(spell(batch.ids), spell(step.shown), replaced, predicted)
