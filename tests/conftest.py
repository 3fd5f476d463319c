"""Small models that many tests look at from different sides."""

from pathlib import Path

import pytest
import torch

from electra.config.load import load_config
from electra.data.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece
from electra.model.networks import build_networks
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model

WORDS = "the chef ate cooked meal soup a cat dog sat on mat and then it was good".split()
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tests share the cores, and sums come out the same on every machine of a kind."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    return wordpiece([*SPECIAL_TOKENS, *WORDS, *LETTERS.replace("a", ""), *(f"##{letter}" for letter in LETTERS), "."])


@pytest.fixture(scope="session")
def tiny_config(tokenizer):
    return load_config(
        "tiny",
        [
            f"model.vocab_size={tokenizer.vocab_size}",
            "model.layers=2",
            "model.dropout=0.1",
            "model.attention_dropout=0.1",
            "model.max_length=16",
            "train.length=16",
            "objective.generator.width=0.5",
        ],
    )


@pytest.fixture(scope="session")
def tiny_model(tiny_config, tokenizer) -> Pretrained:
    """A discriminator and generator of odd, untrained weights: larger than at the start, so that errors show."""
    torch.manual_seed(7)
    networks = build_networks(tiny_config.model, tiny_config.objective.generator)
    for parameter in {*networks.discriminator.parameters(), *networks.generator.parameters()}:
        torch.nn.init.normal_(parameter, std=0.2)
    return Pretrained(networks.discriminator, tokenizer, networks.generator)


@pytest.fixture(scope="session")
def tiny_folder(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    write_model(tiny_model, folder)
    return folder
