"""Comparing discriminators against the same generator."""

from itertools import islice, permutations

import judge
import pytest
import torch

from electra.data.corpus.build import build_corpus
from electra.data.settings import Reading
from electra.errors import CheckpointError
from electra.model.pretrained import Pretrained, load
from electra.recipes.convert import write_model


@pytest.fixture
def corpus(tmp_path, tokenizer):
    text = tmp_path / "text.txt"
    words = "the cat dog sat on a mat and ate soup".split()
    text.write_text("\n\n".join(" ".join(order) for order in islice(permutations(words), 300)))
    place = tmp_path / "corpus"
    build_corpus([text], tokenizer, length=16, out=place, heldout=0.5, reading=Reading(documents="blank"), workers=1)
    return str(place)


def test_all_discriminators_see_the_same_replacements(corpus, tiny_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "ROWS", 16)
    blind, folder = load(tiny_folder), tmp_path / "blind"
    for weight in blind.network.head.parameters():
        torch.nn.init.zeros_(weight)
    write_model(Pretrained(blind.network, blind.tokenizer), folder)
    found = dict(judge.judge(corpus, str(tiny_folder), [str(tiny_folder), str(folder)], batches=2))
    seeing, blind = found[str(tiny_folder)], found[str(folder)]
    assert blind["discriminator_auc"] == 0.5 != seeing["discriminator_auc"]
    assert blind["generator_loss"] == seeing["generator_loss"]
    assert blind["replaced_fraction"] == seeing["replaced_fraction"] > 0
    with pytest.raises(CheckpointError, match="no generator"):
        list(judge.judge(corpus, str(folder), [str(folder)], batches=1))
