"""Corrective detection: a discriminator that also predicts the original tokens (after COCO-LM, Meng et al. 2021)."""

from torch import Tensor

from electra.config.objectives import CorrectiveObjective
from electra.data.feeding.batch import Batch
from electra.model.heads import at_positions
from electra.model.networks import MaskedLM
from electra.model.pretrained import Pretrained
from electra.objectives.base import FRESH, Step, detect, predict
from electra.objectives.draws import Draws
from electra.objectives.rtd import ReplacedTokenDetection


class CorrectiveDetection(ReplacedTokenDetection, kind="corrective"):
    """min L_MLM(x, θ_G) + λ L_Disc(x, θ_D) + μ L_Corr(x, θ_D), all at once.

    With one bit per token to predict, the upper layers may forget which word they encode; L_Corr keeps it there. Its
    head is of no use after training; it is kept to continue, since a new one would disturb the encoder.
    """

    config: CorrectiveObjective

    def complete(self) -> None:
        self.corrector = self.network.encoder.token_head()

    def adopt(self, model: Pretrained) -> list[str]:
        """Start from a pre-trained model; the head of a masked LM becomes the corrector."""
        lacks = super().adopt(model)
        corrector = model.network.head if isinstance(model.network, MaskedLM) else model.corrector
        if corrector is None:
            return [*lacks, f"has no correcting head: {FRESH}"]
        self.corrector.load_state_dict(corrector.state_dict())
        return lacks

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        corrupted = self.corrupt(batch, draws)  # L_MLM
        masked = corrupted.masked
        hidden, scores = self.network(corrupted.ids, batch.attention, batch.types)  # (B, L, H), (B, L)
        replaced = corrupted.ids != batch.ids  # a lucky guess counts as original
        discriminator_loss, verdicts = detect(scores, replaced, self.counted(batch, corrupted))  # L_Disc
        logits = self.corrector(at_positions(hidden, masked.positions), self.network.vocabulary)  # (B, N, V)
        correction_loss, corrections = predict(logits, masked)  # L_Corr
        detection = discriminator_loss.weighted(self.config.discriminator_weight)
        terms = corrupted.loss, detection, correction_loss.weighted(self.config.correction_weight)
        return Step(terms, corrupted.ids, corrupted.generator, main=corrections, verdicts=verdicts)
