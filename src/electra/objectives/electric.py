"""Electric (Clark et al., EMNLP 2020): an energy-based cloze model, trained by noise-contrastive estimation."""

import math

import torch
from torch import Tensor

from electra.config.schema import ElectricObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.heads import at_positions
from electra.model.networks import EnergyModel, GeneratorNetwork
from electra.objectives.base import (
    Objective,
    Predictions,
    Step,
    detect,
    log_likelihood,
    sample,
    sampled_from,
    weighted_mean,
)
from electra.objectives.draws import Draws
from electra.objectives.masking import Masker, everywhere, put_back


class Electric(Objective):
    """The two-tower generator gives noise and its probability q; the discriminator's score is then an energy.

    score + log q(x_t | context) + ln(k / (1 - k)) is the logit of x_t being noise, k the share of noise. A noise token
    that happens to be the true one is noise all the same. Departure: [CLS] and [SEP] do not count in the loss; they are
    never noise, and q is not trained for them.
    """

    network: EnergyModel

    def __init__(
        self, config: ElectricObjective, tokenizer: Tokenizer, generator: GeneratorNetwork, network: EnergyModel
    ) -> None:
        super().__init__()
        self.config = config
        self.mask = Masker(config, tokenizer)
        self.generator = generator
        self.network = network
        self.offset = math.log(config.mask_fraction / (1 - config.mask_fraction))

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Predict every token from all others, put noise in, and tell noise from data."""
        assert self.generator is not None
        masked = self.mask(batch, draws)
        counted = self.mask.candidates(batch).float()
        positions = everywhere(batch)
        logits = self.generator(batch.ids, batch.attention, batch.types, positions).float()  # (B, L, V)
        nll = -log_likelihood(logits, batch.ids)
        generator_loss = weighted_mean(nll, counted)  # the cloze loss, over all tokens
        with torch.no_grad():
            at_masked = at_positions(logits, masked.positions)
            proposed = sample(at_masked, draws.sample[:, : masked.positions.size(1)], self.config.temperature)
            noisy = put_back(batch.ids, masked.positions, proposed, masked.weights)
            log_q = log_likelihood(sampled_from(logits, self.config.temperature), noisy)
        scores = self.network(noisy, batch.attention, batch.types).float() + log_q + self.offset
        noise = masked.chosen > 0  # also where it happens to be the true token
        discriminator_loss, verdicts = detect(scores, noise, counted)
        loss = self.config.generator_weight * generator_loss + self.config.discriminator_weight * discriminator_loss
        best = logits.detach().argmax(-1)
        cloze = Predictions(nll.detach(), best, best == batch.ids, positions, counted)
        return Step(loss, noisy, cloze, verdicts=verdicts)
