"""Put a trained model to work on a text: some tokens are replaced, the discriminator looks for them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from electra.config.schema import ElectraObjective
from electra.data.feeding.batch import Batch
from electra.model.networks import Uniform
from electra.model.pretrained import Pretrained, as_discriminator
from electra.objectives.draws import draw
from electra.objectives.metrics import auc
from electra.objectives.rtd import ReplacedTokenDetection


@dataclass(frozen=True)
class Judged:
    """A token as the discriminator saw it."""

    token: str
    original: str
    probability: float  # of being replaced, as the discriminator thinks

    @property
    def replaced(self) -> bool:
        """Say whether it stands for another."""
        return self.token != self.original


@torch.inference_mode()
def replace_and_detect(model: Pretrained, text: str, seed: int = 0) -> list[Judged]:
    """Replace one token in seven or so, and give every token with the discriminator's verdict.

    The model's generator proposes the replacements; where it has none they are drawn uniformly from the vocabulary.
    """
    discriminator, tokenizer = as_discriminator(model.network), model.tokenizer
    pieces = tokenizer.encode([text])[0].ids[: model.window]
    ids = torch.tensor([[tokenizer.cls_id, *pieces, tokenizer.sep_id]], device=model.device)
    settings = ElectraObjective(mask_token_fraction=1.0, forbid_original=True)
    generator = model.generator or Uniform(model.encoder.config)
    pair = ReplacedTokenDetection(settings, tokenizer, generator, discriminator).eval()
    draws = draw(seed, 0, 1, ids.size(1), device=model.device)
    corrupted = pair.corrupt(Batch(ids, None, None), draws).ids
    probabilities = discriminator(corrupted).sigmoid()
    rows = zip(corrupted[0].tolist(), ids[0].tolist(), probabilities[0].tolist(), strict=True)
    return [Judged(tokenizer.token(new), tokenizer.token(old), probability) for new, old, probability in rows][1:-1]


def detection_auc(sentences: Sequence[Sequence[Judged]]) -> float:
    """Give the chance that a replaced token is thought likelier to be one than an original token."""
    tokens = [token for sentence in sentences for token in sentence]
    return auc(
        torch.tensor([token.probability for token in tokens]), torch.tensor([token.replaced for token in tokens])
    )
