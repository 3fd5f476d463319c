"""Adversarial ELECTRA (appendix F): the generator is rewarded for fooling the discriminator."""

import torch
import torch.nn.functional as F
from torch import Tensor

from electra.config.schema import ElectraObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.encoder import glorot_linear
from electra.model.networks import Discriminator, MaskedLM
from electra.objectives.base import Step, detect, log_likelihood, sampled_from, weighted_mean
from electra.objectives.draws import Draws
from electra.objectives.rtd import ReplacedTokenDetection


class AdversarialRTD(ReplacedTokenDetection):
    """REINFORCE with a learned baseline: the reward of a sample is the discriminator's loss on it."""

    generator: MaskedLM

    def __init__(
        self, config: ElectraObjective, tokenizer: Tokenizer, generator: MaskedLM, network: Discriminator
    ) -> None:
        super().__init__(config, tokenizer, generator, network)
        self.baseline = glorot_linear(generator.encoder.config.hidden_size, 1)

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Corrupt the batch, judge it, and push the generator towards samples that were judged wrongly."""
        if not self.training:  # a reward does not say how good the networks are: held out, they are judged as ELECTRA's
            return super().forward(batch, draws)
        corrupted = self.corrupt(batch, draws)
        masked = corrupted.masked
        replaced = corrupted.ids != batch.ids
        scores = self.network(corrupted.ids, batch.attention, batch.types)
        discriminator_loss, verdicts = detect(scores, replaced, self.counted(batch, corrupted))
        with torch.no_grad():
            reward = verdicts.losses.gather(1, masked.positions)  # (B, N)
            hidden = self.generator.encoder(masked.ids, batch.attention, batch.types)
        baseline = self.baseline(hidden).squeeze(-1).float().gather(1, masked.positions)
        expected = -F.logsigmoid(baseline).detach()  # b(x^masked, t) = -log sigmoid(w · h_G + bias)
        policy = sampled_from(corrupted.logits, self.config.temperature, corrupted.forbidden)
        log_p = log_likelihood(policy, corrupted.proposed)
        policy_loss = weighted_mean(-(reward - expected) * log_p, masked.weights)
        # Cross-entropy between sigmoid(w · h_G + bias) and the probability whose -log the reward is.
        fit = F.binary_cross_entropy_with_logits(baseline, (-reward).exp(), reduction="none")
        baseline_loss = weighted_mean(fit, masked.weights)
        generator_loss = policy_loss + baseline_loss
        loss = self.config.generator_weight * generator_loss + self.config.discriminator_weight * discriminator_loss
        return Step(loss, corrupted.ids, corrupted.generator, verdicts=verdicts)
