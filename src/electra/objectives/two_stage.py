"""Two-stage training (section 3.2): a masked LM first, then a discriminator that starts from its weights.

In the second stage the masked LM is the generator and no longer learns.
"""

from typing import Any, Self

from torch import Tensor

from electra.config.bodies import ModelConfig
from electra.config.objectives import ElectraObjective, MLMObjective
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import CheckpointError
from electra.model.bodies import build_body
from electra.model.networks import Discriminator, MaskedLM
from electra.model.pretrained import Pretrained
from electra.objectives.base import Stage
from electra.objectives.rtd import ReplacedTokenDetection


class TwoStageRTD(ReplacedTokenDetection, kind="two_stage"):
    """The second stage: replaced token detection with the generator held fixed."""

    def complete(self) -> None:
        self.config = self.config.model_copy(update={"generator_weight": 0.0})  # its loss is reported, not trained
        self.generator.requires_grad_(False)

    @classmethod
    def build(cls, config: Any, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None) -> Self:
        generator, network = MaskedLM(build_body(model)), Discriminator(build_body(model))
        network.expect(config.first_chance)
        return cls(config, tokenizer, generator, network)

    @classmethod
    def stages(cls, config: ElectraObjective) -> list[Stage]:
        """Return masked language modeling, which learns at the generator's rate, and detection."""
        masked = config.model_dump(include=set(MLMObjective.model_fields) - {"name"})
        rate = getattr(config.generator, "rate", 1.0)
        return [
            Stage(MLMObjective(**masked), rate, "the first of two stages: a masked LM"),
            Stage(config, 1.0, "the second of two stages: the discriminator starts from it"),
        ]

    def adopt(self, model: Pretrained) -> list[str]:
        """Take the masked LM of the first stage as generator, and its encoder as the discriminator's start."""
        if not isinstance(model.network, MaskedLM) or not isinstance(self.generator, MaskedLM):
            raise CheckpointError("two-stage training starts from a masked LM, the model of its first stage")
        self.generator.load_state_dict(model.network.state_dict())
        self.network.encoder.adopt(model.network.encoder)
        return []
