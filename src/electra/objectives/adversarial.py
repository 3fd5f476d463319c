"""Adversarial ELECTRA (appendix F): the generator is rewarded for fooling the discriminator."""

import torch.nn.functional as F
from torch import Tensor

from electra.config.objectives import ElectraObjective
from electra.data.feeding.batch import Batch
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.initialize import glorot_linear
from electra.model.networks import Discriminator, MaskedLM
from electra.model.ops import sampled_from
from electra.objectives.base import Step, detect, log_likelihood, weighted_sum
from electra.objectives.draws import Draws
from electra.objectives.rtd import ReplacedTokenDetection


class AdversarialRTD(ReplacedTokenDetection, kind="adversarial"):
    """REINFORCE with a learned baseline: the reward of a sample is the discriminator's loss on it."""

    generator: MaskedLM

    def __init__(
        self, config: ElectraObjective, tokenizer: Tokenizer, generator: MaskedLM, network: Discriminator
    ) -> None:
        super().__init__(config, tokenizer, generator, network)
        self.baseline = glorot_linear(generator.encoder.config.hidden_size, 1)

    def forward(self, batch: Batch[Tensor], draws: Draws) -> Step:
        """Corrupt the batch, judge it, and push the generator towards samples that were judged wrongly."""
        if not self.training:  # a reward says nothing of the quality: held-out text is judged as by ELECTRA
            return super().forward(batch, draws)
        corrupted = self.corrupt(batch, draws)
        masked = corrupted.masked
        replaced = corrupted.ids != batch.ids
        scores = self.network(corrupted.ids, batch.attention, batch.types).scores
        discriminator_loss, verdicts = detect(scores, replaced, self.counted(batch, corrupted))
        reward = verdicts.losses.gather(1, masked.positions)  # (B, N)
        assert corrupted.hidden is not None
        baseline = self.baseline(corrupted.hidden.detach()).squeeze(-1).float().gather(1, masked.positions)
        expected = -F.logsigmoid(baseline).detach()  # b(x^masked, t) = -log sigmoid(w · h_G + bias)
        policy = sampled_from(corrupted.logits, self.config.temperature, corrupted.forbidden)
        log_p = log_likelihood(policy, corrupted.proposed)
        policy_loss = weighted_sum(-(reward - expected) * log_p, masked.weights)
        # Cross-entropy between sigmoid(w · h_G + bias) and the probability whose -log is the reward.
        fit = F.binary_cross_entropy_with_logits(baseline, (-reward).exp(), reduction="none")
        baseline_loss = weighted_sum(fit, masked.weights)
        terms = (
            policy_loss.times(self.config.generator_weight),
            baseline_loss.times(self.config.generator_weight),
            discriminator_loss.times(self.config.discriminator_weight),
        )
        return Step(terms, corrupted.ids, corrupted.generator, verdicts=verdicts)
