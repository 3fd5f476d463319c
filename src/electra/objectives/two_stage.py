"""The second stage of two-stage training (section 3.2): a discriminator against a generator that no longer learns.

The first stage is masked language modelling by the generator; the discriminator starts from its weights.
"""

from electra.config.schema import ElectraObjective
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.networks import Discriminator, MaskedLM
from electra.objectives.rtd import ReplacedTokenDetection


class FrozenGeneratorRTD(ReplacedTokenDetection):
    """Replaced token detection with the generator held fixed."""

    def __init__(
        self, config: ElectraObjective, tokenizer: Tokenizer, generator: MaskedLM, network: Discriminator
    ) -> None:
        shown = config.model_copy(update={"generator_weight": 0.0})  # the generator's loss is shown, not trained
        super().__init__(shown, tokenizer, generator.requires_grad_(False), network)

    def start_from(self, generator: MaskedLM) -> None:
        """Take the trained generator, and its encoder as the discriminator's first weights."""
        self.generator.load_state_dict(generator.state_dict())
        self.network.encoder.load_state_dict(generator.encoder.state_dict())
