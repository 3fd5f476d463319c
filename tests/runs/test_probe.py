"""Probing layers: tags are found, unless a layer destroys its input."""

import probe
import pytest
import torch

from electra.config.load import load_config
from electra.model.bodies import build_body
from electra.model.networks import Discriminator
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


def test_a_layer_that_destroys_its_input_has_a_lower_accuracy(conll, tiny_folder, tmp_path):
    model, folder = load(tiny_folder, device="cpu"), tmp_path / "destroyed"
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
    found, ratios = ([line[column] for line in lines] for column in (2, 3))
    assert found[: 2 * layers - 1] == [1.0] * (2 * layers - 1), "here each word has one tag, and early layers know it"
    assert found[-1] < 0.5
    assert ratios[0] > 0.01 > 1e-5 > ratios[layers], "only its bias is left, which is the same for all words"


def test_a_modern_body_is_probed_before_its_norm(conll, tiny_model, tmp_path):
    sizes = [f"model.vocab_size={tiny_model.tokenizer.vocab_size}", "model.layers=2"]
    network = Discriminator(build_body(load_config("modern-7x256", sizes).model))
    body = network.encoder
    with torch.no_grad():
        body.layers[0].contract.weight.zero_()
        body.layers[1].contract.weight.mul_(1e3)
    write_model(Pretrained(network, tiny_model.tokenizer), tmp_path / "modern")
    (*_, found, none), (*_, large) = probe.probe(conll, [str(tmp_path / "modern")], sentences=100)
    assert (found, none) == (1.0, 0.0)
    assert large > 1
