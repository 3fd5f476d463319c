"""From a config to an objective."""

import math

from torch import Tensor, nn

from electra.config import schema
from electra.config.schema import ModelConfig
from electra.data.tokens.tokenizer import Tokenizer
from electra.model.encoder import Encoder
from electra.model.networks import Discriminator, EnergyModel, MaskedLM, Networks, build_encoders, build_networks
from electra.objectives.adversarial import AdversarialRTD
from electra.objectives.all_tokens_mlm import AllTokensMLM
from electra.objectives.base import Objective
from electra.objectives.electra_15 import Electra15
from electra.objectives.electric import Electric
from electra.objectives.mlm import MaskedLanguageModelling
from electra.objectives.replace_mlm import ReplaceMLM
from electra.objectives.rtd import ReplacedTokenDetection
from electra.objectives.two_stage import FrozenGeneratorRTD

ALGORITHMS = {"joint": ReplacedTokenDetection, "adversarial": AdversarialRTD}


def build_objective(
    objective: schema.Objective, model: ModelConfig, tokenizer: Tokenizer, counts: Tensor | None = None
) -> Objective:
    """Build an objective with fresh networks; the unigram generator needs `counts` (V,) of the tokens."""
    match objective:
        case schema.MLMObjective():
            return MaskedLanguageModelling(objective, tokenizer, MaskedLM(Encoder(model)))
        case schema.ElectraObjective(algorithm="two_stage"):  # the first stage's network becomes both of the second
            networks = Networks(MaskedLM(Encoder(model)), Discriminator(Encoder(model)))
            return FrozenGeneratorRTD(objective, tokenizer, _expecting(objective, networks))
        case schema.ElectraObjective():
            networks = build_networks(model, objective.generator, counts)
            return ALGORITHMS[objective.algorithm](objective, tokenizer, _expecting(objective, networks))
        case schema.Electra15Objective():
            networks = build_networks(model, objective.generator, counts)
            return Electra15(objective, tokenizer, _expecting(objective, networks))
        case schema.ElectricObjective():
            encoder, generator = build_encoders(model, objective.generator)
            return Electric(objective, tokenizer, generator, EnergyModel(encoder))
        case schema.ReplaceMLMObjective():
            encoder, generator = build_encoders(model, objective.generator, counts)
            return ReplaceMLM(objective, tokenizer, generator, MaskedLM(encoder))
        case schema.AllTokensMLMObjective():
            encoder, generator = build_encoders(model, objective.generator, counts)
            return AllTokensMLM(objective, tokenizer, generator, MaskedLM(encoder))


def _expecting(objective: schema.Detection, networks: Networks) -> Networks:
    """Let the discriminator start from the chance of being replaced that the config says."""
    chance = objective.first_chance
    nn.init.constant_(networks.discriminator.head.score.bias, math.log(chance / (1 - chance)))
    return networks
