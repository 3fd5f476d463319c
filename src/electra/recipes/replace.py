"""Try a trained model on a text: replace some tokens and let the discriminator detect them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from electra.config.objectives import ElectraObjective
from electra.data.feeding.batch import Batch
from electra.model.networks import Unigram
from electra.model.pretrained import Pretrained, as_discriminator
from electra.objectives.draws import draw
from electra.objectives.metrics import auc
from electra.objectives.rtd import ReplacedTokenDetection


@dataclass(frozen=True)
class Judged:
    """A token of the corrupted text with the discriminator's verdict."""

    token: str
    original: str
    probability: float  # of being replaced, according to the discriminator

    @property
    def replaced(self) -> bool:
        """Return whether the token differs from the original."""
        return self.token != self.original


@torch.inference_mode()
def replace_and_detect(model: Pretrained, text: str, seed: int = 0) -> list[Judged]:
    """Replace about one token in seven, and return every token with the discriminator's verdict.

    The model's generator proposes the replacements; without one they are drawn uniformly from the vocabulary.
    """
    discriminator, tokenizer = as_discriminator(model.network), model.tokenizer
    pieces = tokenizer.encode([text])[0].ids[: model.window]
    ids = torch.tensor([[tokenizer.cls_id, *pieces, tokenizer.sep_id]], device=model.device)
    settings = ElectraObjective(mask_token_fraction=1.0, forbid_original=True)
    generator = model.generator or Unigram(torch.ones(model.encoder.config.vocab_size, device=model.device))
    pair = ReplacedTokenDetection(settings, tokenizer, generator, discriminator).eval()
    draws = draw(seed, 0, 1, ids.size(1), device=model.device)
    corrupted = pair.corrupt(Batch(ids, None, None), draws).ids
    probabilities = discriminator(corrupted).scores.sigmoid()
    rows = zip(corrupted[0].tolist(), ids[0].tolist(), probabilities[0].tolist(), strict=True)
    return [Judged(tokenizer.token(new), tokenizer.token(old), probability) for new, old, probability in rows][1:-1]


def detection_auc(sentences: Sequence[Sequence[Judged]]) -> float:
    """Return the AUC: the chance that a replaced token gets a higher probability than an original one."""
    tokens = [token for sentence in sentences for token in sentence]
    probabilities = torch.tensor([token.probability for token in tokens])
    return auc(probabilities, torch.tensor([token.replaced for token in tokens]))
