"""Adversarial ELECTRA (appendix F): the generator is rewarded for fooling the discriminator."""

import torch.nn.functional as F
from torch import Tensor

from electra.data.feeding.batch import Batch
from electra.model.initialize import glorot_linear
from electra.model.networks import MaskedLM
from electra.model.ops import sampled_from
from electra.objectives.base import Step, detect, log_likelihood, weighted_sum
from electra.objectives.draws import Draws
from electra.objectives.rtd import ReplacedTokenDetection


class AdversarialRTD(ReplacedTokenDetection, kind="adversarial"):
    """REINFORCE with a learned baseline: the reward of a sample is the discriminator's loss on it."""

    generator: MaskedLM

    def complete(self) -> None:
        self.baseline = glorot_linear(self.generator.encoder.config.hidden_size, 1)

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        if not self.training:  # a reward says nothing of the quality: held-out text is judged as by ELECTRA
            return super().forward(batch, draws)
        corrupted = self.corrupt(batch, draws)
        masked, weight = corrupted.masked, self.config.generator_weight
        scores = self.network(corrupted.ids, batch.attention, batch.types).scores
        discriminator_loss, verdicts = detect(scores, corrupted.ids != batch.ids, self.counted(batch, corrupted))
        reward = verdicts.losses.gather(1, masked.positions)  # (B, N)
        assert corrupted.hidden is not None
        baseline = self.baseline(corrupted.hidden.detach()).squeeze(-1).float().gather(1, masked.positions)
        expected = -F.logsigmoid(baseline).detach()  # b(x^masked, t) = -log sigmoid(w · h_G + bias)
        policy = sampled_from(corrupted.logits, self.config.temperature, corrupted.forbidden)
        log_p = log_likelihood(policy, corrupted.proposed)
        policy_loss = weighted_sum(-(reward - expected) * log_p, masked.weights, weight)
        # Cross-entropy between sigmoid(w · h_G + bias) and the probability whose -log is the reward.
        fit = F.binary_cross_entropy_with_logits(baseline, (-reward).exp(), reduction="none")
        baseline_loss = weighted_sum(fit, masked.weights, weight)
        terms = policy_loss, baseline_loss, discriminator_loss.weighted(self.config.discriminator_weight)
        return Step(terms, corrupted.ids, corrupted.generator, verdicts=verdicts)
