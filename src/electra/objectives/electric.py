"""Electric (Clark et al., EMNLP 2020): an energy-based cloze model, trained by noise-contrastive estimation."""

import math

import torch
from torch import Tensor

from electra.config.objectives import ElectricObjective
from electra.data.feeding.batch import Batch
from electra.model import ops
from electra.model.heads import at_positions
from electra.model.networks import EnergyModel, TwoTower
from electra.objectives.base import Predictions, Step, detect, log_likelihood, weighted_sum
from electra.objectives.corruption import TwoNetworks
from electra.objectives.draws import Draws
from electra.objectives.masking import everywhere, put_back


class Electric(TwoNetworks, kind="electric"):
    """The two-tower generator gives noise and its probability q; the discriminator's score is then an energy.

    score + log q(x_t | context) + ln(k / (1 - k)) is the logit of x_t being noise, k the share of noise. A noise token
    that happens to be the true one still counts as noise. Departure: [CLS] and [SEP] do not count in the loss; they are
    never noise, and q is not trained for them.
    """

    main = EnergyModel
    config: ElectricObjective
    generator: TwoTower
    network: EnergyModel

    def complete(self) -> None:
        self.offset = math.log(self.config.mask_fraction / (1 - self.config.mask_fraction))

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        masked = self.mask(batch, draws)
        counted = self.mask.candidates(batch).float()
        logits = self.generator(batch.ids, batch.attention, batch.types).logits.float()  # (B, L, V)
        nll = -log_likelihood(logits, batch.ids)
        generator_loss = weighted_sum(nll, counted, self.config.generator_weight)  # the cloze loss, over all tokens
        with torch.no_grad():
            at_masked = at_positions(logits, masked.positions)
            proposed = ops.sample(at_masked, draws.sample[:, : masked.positions.size(1)], self.config.temperature)
            noisy = put_back(batch.ids, masked.positions, proposed, masked.weights)
            log_q = log_likelihood(ops.sampled_from(logits, self.config.temperature), noisy)
        scores = self.network(noisy, batch.attention, batch.types).scores.float() + log_q + self.offset
        noise = masked.chosen > 0  # also where it happens to be the true token
        discriminator_loss, verdicts = detect(scores, noise, counted)
        best = logits.detach().argmax(-1)
        cloze = Predictions(nll.detach(), best, best == batch.ids, everywhere(batch), counted)
        terms = generator_loss, discriminator_loss.weighted(self.config.discriminator_weight)
        return Step(terms, noisy, cloze, verdicts=verdicts)
