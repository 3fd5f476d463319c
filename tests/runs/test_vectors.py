"""Sentence similarity from the vectors of each layer."""

import pytest
import torch
import vectors

from electra.model.pretrained import Pretrained, load
from electra.recipes.convert import write_model

PAIRS = [("the cat sat", "the cat sat", 5.0), ("the dog ate soup", "the dog ate soup", 5.0)]
PAIRS += [("the cat sat", "a good meal", 1.0), ("on the mat", "then it was cooked", 0.0)]


@pytest.fixture
def glue(tmp_path):
    (tmp_path / "STS-B").mkdir()
    rows = [f"{number}\t{first}\t{second}\t{score}\n" for number, (first, second, score) in enumerate(PAIRS)]
    (tmp_path / "STS-B" / "dev.tsv").write_text("index\tsentence1\tsentence2\tscore\n" + "".join(rows))
    return str(tmp_path)


def test_intact_layers_recognize_identical_sentences(glue, tiny_folder, tmp_path):
    model, folder = load(tiny_folder, device="cpu"), tmp_path / "scrambled"
    with torch.no_grad():
        torch.manual_seed(0)
        model.encoder.layers[-1].feed_forward_norm.weight.mul_(1e-4)  # all states are nearly the same
        model.encoder.layers[-1].feed_forward_norm.bias.fill_(1.0)
    write_model(Pretrained(model.network, model.tokenizer), folder)
    lines = list(vectors.similarities(glue, [str(tiny_folder), str(folder)]))
    layers = len(model.encoder.layers)
    assert [line[:2] for line in lines] == [
        (str(name), at + 1) for name in (tiny_folder, folder) for at in range(layers)
    ]
    assert all(found > 0.7 for _, _, found in lines[:layers])
    assert lines[layers:-1] == [(str(folder), *line[1:]) for line in lines[: layers - 1]]
