"""From a config to an objective."""

import math
from collections.abc import Callable

from torch import Tensor, nn

from electra.config import schema
from electra.config.schema import ModelConfig
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.encoder import Encoder
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, build_networks
from electra.objectives.adversarial import AdversarialRTD
from electra.objectives.all_tokens_mlm import AllTokensMLM
from electra.objectives.base import Objective
from electra.objectives.corrective import CorrectiveDetection
from electra.objectives.electra_15 import Electra15
from electra.objectives.electric import Electric
from electra.objectives.mlm import MaskedLanguageModelling
from electra.objectives.replace_mlm import ReplaceMLM
from electra.objectives.rtd import ReplacedTokenDetection
from electra.objectives.two_stage import FrozenGeneratorRTD


def build_objective(
    objective: schema.Objective, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None = None
) -> Objective:
    """Build an objective with fresh networks; the unigram generator needs `counts` (V,) of the tokens."""
    match objective:
        case schema.MLMObjective():
            return MaskedLanguageModelling(objective, tokenizer, MaskedLM(Encoder(model)))
        case schema.ElectraObjective(algorithm="two_stage"):  # the first stage's network becomes both of the second
            first, second = MaskedLM(Encoder(model)), _discriminator(Encoder(model), objective.first_chance)
            return FrozenGeneratorRTD(objective, tokenizer, first, second)
    encoder, generator = build_networks(model, objective.generator, counts)
    match objective:
        case schema.ElectraObjective() | schema.Electra15Objective() | schema.CorrectiveObjective():
            network = _discriminator(encoder, objective.first_chance)
            return _detection(objective)(objective, tokenizer, generator, network)
        case schema.ElectricObjective():
            return Electric(objective, tokenizer, generator, EnergyModel(encoder))
        case schema.ReplaceMLMObjective():
            return ReplaceMLM(objective, tokenizer, generator, MaskedLM(encoder))
        case schema.AllTokensMLMObjective():
            return AllTokensMLM(objective, tokenizer, generator, MaskedLM(encoder))


def _detection(objective: schema.Detecting) -> Callable[..., Objective]:
    match objective:
        case schema.Electra15Objective():
            return Electra15
        case schema.CorrectiveObjective():
            return CorrectiveDetection
        case schema.ElectraObjective(algorithm="adversarial"):
            return AdversarialRTD
    return ReplacedTokenDetection


def _discriminator(encoder: Encoder, chance: float) -> Discriminator:
    """Make a discriminator that starts from a chance of being replaced."""
    network = Discriminator(encoder)
    nn.init.constant_(network.head.score.bias, math.log(chance / (1 - chance)))
    return network
