"""Start from weights that exist: a run of ours or an imported model."""

from collections.abc import Sequence

import torch
from torch import nn

from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import ConfigError
from electra.model.encoder import DisentangledEmbeddings, Encoder
from electra.model.networks import Discriminator, EnergyModel, MaskedLM
from electra.model.pretrained import Pretrained, find_folder
from electra.model.two_tower import TwoTowerGenerator
from electra.objectives.base import Objective
from electra.objectives.corrective import CorrectiveDetection

SHAPE = "embedding_size hidden_size layers heads feed_forward_size vocab_size max_length token_types".split()
HEADS = {Discriminator: "discriminator", EnergyModel: "energy", MaskedLM: "masked-LM"}


def initialise(objective: Objective, model: Pretrained, tokenizer: Tokenizer, source: str) -> list[str]:
    """Copy what the model has into the objective's networks and say what it lacks."""
    warnings = []
    check_vocabulary(tokenizer, model.tokenizer, source)
    _copy_encoder(objective.network.encoder, model.encoder, "the model")
    main = model.network
    if type(main) is type(objective.network) and not isinstance(main, Encoder):
        objective.network.head.load_state_dict(main.head.state_dict())
    else:
        warnings.append(f"{source} has no {HEADS[type(objective.network)]} head: it starts from random weights")
    if isinstance(objective, CorrectiveDetection):
        if isinstance(main, MaskedLM):
            objective.corrector.load_state_dict(main.head.state_dict())
        else:
            warnings.append(f"{source} has no correcting head: it starts from random weights")
    if isinstance(objective.generator, MaskedLM):
        if model.generator is None:
            warnings.append(f"{source} has no generator: it starts from random weights")
        else:
            warnings += _copy_generator(objective, objective.generator, model, model.generator, source)
    elif isinstance(objective.generator, TwoTowerGenerator):
        warnings.append(f"{source} has no two-tower generator: it starts from random weights")
    return warnings


def check_vocabulary(ours: Tokenizer, theirs: Tokenizer, source: str) -> None:
    """Refuse weights that learnt other tokens under the ids of the corpus."""
    wanted, found = ours.backend.get_vocab(), theirs.backend.get_vocab()
    if wanted != found:
        number = min(number for _, number in wanted.items() ^ found.items())
        raise ConfigError(
            f"init: {source} has another vocabulary than the corpus, such as {theirs.token(number)!r} for "
            f"{ours.token(number)!r}: build the corpus with --tokenizer {find_folder(source)}"
        )


def _copy_generator(
    objective: Objective, ours: MaskedLM, model: Pretrained, theirs: MaskedLM, source: str
) -> list[str]:
    """Copy the generator; what it shares with the main network stays the main network's."""
    main, embeddings = objective.network.encoder, objective.network.encoder.embeddings
    if ours.encoder is main:
        _check_shape(ours.encoder, theirs.encoder, "the generator", keys=("embedding_size", "hidden_size"))
    else:
        _copy_encoder(ours.encoder, theirs.encoder, "the generator")
    ours.head.load_state_dict(theirs.head.state_dict())
    if isinstance(embeddings, DisentangledEmbeddings):
        _set_differences(embeddings, model.encoder)
    elif ours.encoder.embeddings is embeddings:
        embeddings.load_state_dict(model.encoder.embeddings.state_dict())
        if not torch.equal(theirs.encoder.embeddings.vocabulary, model.encoder.embeddings.vocabulary):
            return [f"the generator of {source} has embeddings of its own: it shares the model's instead"]
    return []


def _check_shape(ours: Encoder, theirs: Encoder, name: str, keys: Sequence[str] = SHAPE) -> None:
    for key in keys:
        wanted, found = getattr(ours.config, key), getattr(theirs.config, key)
        if wanted != found:
            raise ConfigError(f"init: {name} has {key} {found}, the config says {wanted}")


def _copy_encoder(ours: Encoder, theirs: Encoder, name: str) -> None:
    _check_shape(ours, theirs, name)
    for part in ("project", "layers"):
        module: nn.Module = getattr(ours, part)
        module.load_state_dict(getattr(theirs, part).state_dict())
    if isinstance(ours.embeddings, DisentangledEmbeddings):
        ours.embeddings.shared.load_state_dict(theirs.embeddings.state_dict())
        ours.embeddings.norm.load_state_dict(theirs.embeddings.norm.state_dict())
    else:
        ours.embeddings.load_state_dict(theirs.embeddings.state_dict())


@torch.no_grad()
def _set_differences(embeddings: DisentangledEmbeddings, theirs: Encoder) -> None:
    for table in ("words", "positions", "types"):
        own, shared, wanted = (
            getattr(module, table).weight for module in (embeddings, embeddings.shared, theirs.embeddings)
        )
        own.copy_(wanted - shared)
    embeddings.norm.load_state_dict(theirs.embeddings.norm.state_dict())
