"""The second stage of two-stage training (section 3.2): a discriminator against a generator that no longer learns.

The first stage is masked language modelling by the generator; the discriminator starts from its weights.
"""

from electra.config.schema import ElectraObjective
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.networks import MaskedLM, Networks
from electra.objectives.rtd import ReplacedTokenDetection


class FrozenGeneratorRTD(ReplacedTokenDetection):
    """Replaced token detection with the generator held fixed."""

    def __init__(self, config: ElectraObjective, tokenizer: Tokenizer, networks: Networks) -> None:
        super().__init__(config, tokenizer, networks)
        self.generator.requires_grad_(False)
        self.generator_weight = 0.0  # its loss is shown, not trained

    def start_from(self, generator: MaskedLM) -> None:
        """Take the trained generator, and its encoder as the discriminator's first weights."""
        self.generator.load_state_dict(generator.state_dict())
        self.network.encoder.load_state_dict(generator.encoder.state_dict())
