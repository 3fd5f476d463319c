"""What layers know of words: found where it is, not found where a layer drowned it."""

import probe
import pytest
import torch

from electra.model.pretrained import Pretrained, load
from electra.recipes.convert import write_model

TAGS = {"cat": "B-NP", "dog": "B-NP", "sat": "B-VP", "ate": "B-VP", "on": "B-PP", "the": "I-NP", "mat": "I-VP"}


@pytest.fixture
def conll(tmp_path):
    words = list(TAGS)
    sentences = [[words[(start * step + at) % 7] for at in range(5)] for start in range(7) for step in (1, 2, 3)]
    text = "\n\n".join("\n".join(f"{word} {TAGS[word]}" for word in sentence) for sentence in sentences)
    for split in ("train", "test"):
        (tmp_path / f"{split}.txt").write_text(text)
    return str(tmp_path)


def test_a_layer_that_drowns_what_it_is_given_knows_less_of_the_words(conll, tiny_folder, tmp_path):
    model, folder = load(tiny_folder, device="cpu"), tmp_path / "drowned"
    first, last = model.encoder.layers[0], model.encoder.layers[-1]
    with torch.no_grad():
        first.contract.weight.zero_()
        last.feed_forward_norm.weight.zero_()
    write_model(Pretrained(model.network, model.tokenizer), folder)
    lines = list(probe.probe(conll, [str(tiny_folder), str(folder)], sentences=100))
    layers = len(model.encoder.layers)
    assert [line[:2] for line in lines] == [
        (str(name), at + 1) for name in (tiny_folder, folder) for at in range(layers)
    ]
    found, pushes = ([line[column] for line in lines] for column in (2, 3))
    assert found[: 2 * layers - 1] == [1.0] * (2 * layers - 1), "a word is its tag here, and early layers know the word"
    assert found[-1] < 0.5
    assert pushes[0] > 0.01 > 1e-5 > pushes[layers], "its bias alone is left, which moves no word apart"
