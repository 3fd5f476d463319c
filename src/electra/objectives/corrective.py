"""Corrective detection: a discriminator that also says what stood there (after COCO-LM, Meng et al. 2021)."""

from torch import Tensor

from electra.config.schema import CorrectiveObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.heads import GeneratorHead, at_positions
from electra.model.networks import Discriminator, GeneratorNetwork
from electra.objectives.base import Step, detect, predict
from electra.objectives.draws import Draws
from electra.objectives.rtd import ReplacedTokenDetection


class CorrectiveDetection(ReplacedTokenDetection):
    """min L_MLM(x, θ_G) + λ L_Disc(x, θ_D) + μ L_Corr(x, θ_D), all at once.

    One bit a token lets the upper layers forget which word they stand on; L_Corr keeps it there. Its head is thrown
    away with the generator.
    """

    config: CorrectiveObjective

    def __init__(
        self, config: CorrectiveObjective, tokenizer: Tokenizer, generator: GeneratorNetwork, network: Discriminator
    ) -> None:
        super().__init__(config, tokenizer, generator, network)
        self.corrector = GeneratorHead(network.encoder.config)

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Corrupt the batch, tell its tokens from the replaced ones and predict what stood at the masked positions."""
        corrupted = self.corrupt(batch, draws)  # L_MLM
        masked, encoder = corrupted.masked, self.network.encoder
        hidden = encoder(corrupted.ids, batch.attention, batch.types)  # (B, L, H)
        replaced = corrupted.ids != batch.ids  # a lucky guess counts as original
        scores = self.network.head(hidden)  # (B, L)
        discriminator_loss, verdicts = detect(scores, replaced, self.counted(batch, corrupted))  # L_Disc
        logits = self.corrector(at_positions(hidden, masked.positions), encoder.embeddings.vocabulary)  # (B, N, V)
        correction_loss, corrections = predict(logits, masked)  # L_Corr
        loss = self.config.generator_weight * corrupted.loss + self.config.discriminator_weight * discriminator_loss
        loss = loss + self.config.correction_weight * correction_loss
        return Step(loss, corrupted.ids, corrupted.generator, main=corrections, verdicts=verdicts)
