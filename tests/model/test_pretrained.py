import json
import shutil
from itertools import pairwise

import numpy as np
import pytest
import torch

from electra.config.load import load_config
from electra.data.tokens.vocab import train_vocab
from electra.errors import CheckpointError, ConfigError, DataError
from electra.model.bodies import build_body
from electra.model.huggingface import write_network
from electra.model.networks import Discriminator
from electra.model.precision import as_used
from electra.model.pretrained import Pretrained, load
from electra.recipes.convert import write_model

LONG = " ".join(["the chef ate the meal and then a cat sat on it ."] * 40)  # 520 tokens, the model takes 16


@pytest.fixture(scope="module")
def model(tiny_folder):
    return load(tiny_folder)


def direct_probabilities(model: Pretrained, pieces: list[int]) -> torch.Tensor:
    ids = torch.tensor([[model.tokenizer.cls_id, *pieces, model.tokenizer.sep_id]])
    with torch.no_grad():
        return torch.sigmoid(model.network(ids).scores)[0, 1:-1]


def test_detect_returns_each_token_with_its_probability_and_span(model):
    text = "The chef cooked  soup."
    found = model.detect(text)
    assert [detection.token for detection in found] == ["the", "chef", "cooked", "soup", "."]
    assert [text[slice(*detection.span)] for detection in found] == ["The", "chef", "cooked", "soup", "."]
    expected = direct_probabilities(model, model.tokenizer.encode([text])[0].ids)
    np.testing.assert_allclose([detection.probability for detection in found], expected, rtol=1e-5)


def test_a_text_longer_than_the_model_loses_no_token(model):
    found = model.detect(LONG)
    encoding = model.tokenizer.encode([LONG])[0]
    assert [detection.span for detection in found] == encoding.offsets
    assert len(encoding.ids) == 520


def test_tokens_of_a_long_text_are_judged_in_the_window_with_most_context(model):
    found = model.detect(LONG)
    ids = model.tokenizer.encode([LONG])[0].ids
    size = 14  # the model's 16 positions minus [CLS] and [SEP]
    starts = [*range(0, 520 - size, size // 2), 520 - size]
    for place in (0, 6, 100, 257, 479):
        best = max(starts, key=lambda start: min(place - start, start + size - 1 - place))
        expected = direct_probabilities(model, ids[best : best + size])[place - best].item()
        assert found[place].probability == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("text", ["", "   ", "\n\n"])
def test_an_empty_text_has_no_tokens(model, text):
    assert model.detect(text) == []


@pytest.mark.parametrize(
    "text", ["🙂 the 👩‍🚀", "שלום the עולם", "東京 the ソウル 서울", "e\u0301 a\u0000b \u202ethe", "[MASK] [CLS]"]
)
def test_every_script_is_read(model, text):
    found = model.detect(text)
    assert found
    for token, probability, (start, end) in found:
        assert 0 <= probability <= 1
        assert 0 <= start <= end <= len(text)
        assert token not in ("[MASK]", "[CLS]")


def test_a_word_start_marker_has_an_empty_span_where_there_is_no_space(tmp_path):
    (tmp_path / "text.txt").write_text("猫が本を食べました。\n\n犬が水を飲みました。\n\n" * 30)
    tokenizer = train_vocab(tmp_path / "text.txt", size=60, out=tmp_path / "tokenizer", model="unigram")
    config = load_config("tiny", [f"model.vocab_size={tokenizer.vocab_size}"]).model
    text = "水を 本を"
    found = Pretrained(Discriminator(build_body(config)), tokenizer).detect(text)
    assert (found[0].token, found[0].span) == ("▁", (0, 0))
    for (_, _, (_, end)), (_, _, (start, _)) in pairwise(found):
        assert start >= end
    assert found[-1].span[1] == len(text)


def test_encode_averages_the_states_of_a_text(model):
    text = "the chef ate"
    ids = [model.tokenizer.cls_id, *model.tokenizer.encode([text])[0].ids, model.tokenizer.sep_id]
    with torch.no_grad():
        hidden = model.encoder(torch.tensor([ids]))[0]
    np.testing.assert_allclose(model.encode([text])[0], hidden.mean(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.encode([text], pooling="first")[0], hidden[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(model.encode([text], pooling="tokens")[0], hidden[1:-1], rtol=1e-4, atol=1e-5)


def test_texts_encode_the_same_in_a_batch_and_one_by_one(model):
    texts = ["the chef", "", LONG, "a cat sat on the mat .", "it"]
    together = model.encode(texts)
    assert together.shape == (5, 128)
    assert together.dtype == np.float32
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(vector, model.encode([text])[0], rtol=1e-4, atol=1e-5)


def test_tokens_of_a_long_text_are_all_encoded(model):
    (states,) = model.encode([LONG], pooling="tokens")
    assert states.shape == (520, 128)


def test_no_texts_encode_to_no_vectors(model):
    assert model.encode([]).shape == (0, 128)
    assert model.encode([], pooling="tokens") == []


@pytest.mark.parametrize("text", ["half a smile \ud83d", None, b"bytes"])
def test_input_that_is_not_text_is_a_one_line_error(model, text):
    with pytest.raises(DataError, match="texts must be strings without lone surrogates"):
        model.encode([text])


def test_an_unknown_device_is_a_one_line_error(tiny_folder):
    with pytest.raises(ConfigError, match="unknown device 'gpu'; use auto, cpu, cuda, cuda:N or mps"):
        load(tiny_folder, device="gpu")


@pytest.mark.parametrize(
    ("name", "message"), [("", "name of a model or tokenizer is empty"), ("a" * 300, "no such model|no file or folder")]
)
def test_an_invalid_name_is_a_one_line_error(name, message):
    with pytest.raises(CheckpointError, match=message):
        load(name)


def test_texts_may_be_an_iterator(model):
    texts = ["the chef ate", "soup"]
    np.testing.assert_array_equal(model.encode(iter(texts)), model.encode(texts))


def test_detect_takes_one_text(model):
    with pytest.raises(DataError, match="detect takes one text"):
        model.detect(["the chef", "ate"])


def test_a_single_text_is_not_read_as_a_list_of_characters(model):
    with pytest.raises(DataError, match=r"expected a list of texts, found one text"):
        model.encode("the chef")


def test_an_unknown_pooling_is_refused(model):
    with pytest.raises(DataError, match="choose mean, first or tokens"):
        model.encode(["the"], pooling="max")


TEXTS = ["the chef", "", "a cat sat on the mat .", "it was good and then the dog ate"]


@pytest.mark.gpu  # on a CPU, bf16 products can change the rounding of later float32 products in the process
def test_bf16_stays_near_float32(tiny_folder):
    """Within 2 % of a vector's length and 0.03 of a probability, as docs/performance.md states."""
    rounded, model = (load(tiny_folder, precision=precision) for precision in ("bf16", "float32"))
    for pooling in ("mean", "first"):
        found, exact = rounded.encode(TEXTS, pooling), model.encode(TEXTS, pooling)
        assert found.dtype == np.float32
        assert (np.linalg.norm(found - exact, axis=1) < 0.02 * np.linalg.norm(exact, axis=1)).all()
    probabilities = [
        [detection.probability for detection in each.detect("the chef ate soup .")] for each in (rounded, model)
    ]
    np.testing.assert_allclose(*probabilities, atol=0.03)
    np.testing.assert_allclose(rounded.propose([7, 8, 9], [1]), model.propose([7, 8, 9], [1]), atol=0.03)


def test_a_model_used_in_bf16_is_written_in_float32(tiny_folder, tmp_path):
    rounded = load(tiny_folder, precision="bf16")
    assert as_used(rounded.network, rounded) is not rounded.network
    write_model(rounded, tmp_path / "again")
    for name in ("model.safetensors", "generator/model.safetensors"):
        assert (tmp_path / "again" / name).read_bytes() == (tiny_folder / name).read_bytes()


def test_an_unknown_precision_is_refused(tiny_folder):
    with pytest.raises(CheckpointError, match="precision='half': choose auto, bf16, float32"):
        load(tiny_folder, precision="half")


def test_a_bare_encoder_cannot_detect(tiny_config, tokenizer, tmp_path):
    write_network(build_body(tiny_config.model), tmp_path)
    tokenizer.save(tmp_path)
    with pytest.raises(CheckpointError, match="this model has no discriminator head"):
        load(tmp_path).detect("the")


def test_a_vocabulary_that_does_not_match_the_embedding_is_refused(tiny_folder, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    (copy / "tokenizer.json").unlink()
    (copy / "checksums.json").unlink()
    with (copy / "vocab.txt").open("a") as vocab:
        vocab.write("more\n")
    with pytest.raises(CheckpointError, match=r"vocabulary .* has 75 entries, but the embedding has 74"):
        load(copy)


def test_a_run_folder_is_loaded_through_its_model(tiny_folder, tmp_path):
    shutil.copytree(tiny_folder, tmp_path / "run" / "model")
    assert load(tmp_path / "run").generator is not None


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(CheckpointError, match="no file or folder"):
        load(tmp_path / "nothing")


def test_a_hub_name_is_found_in_the_local_cache(tiny_folder, tmp_path, monkeypatch):
    """The hub's cache layout, written by hand: a cached model needs no network."""
    import huggingface_hub.constants

    repository = tmp_path / "models--someone--tiny"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs" / "main").write_text("abc")
    shutil.copytree(tiny_folder, repository / "snapshots" / "abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert load("someone/tiny").detect("the chef")
    with pytest.raises(CheckpointError, match=r"the Hugging Face Hub cannot be reached: .*offline mode"):
        load("someone/else")


def test_a_mistyped_folder_gets_a_suggestion(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    with pytest.raises(CheckpointError, match=r"no folder runs/mien, .*; did you mean runs/mine\?"):
        load("runs/mien")


def test_a_generator_folder_without_a_generator_is_refused(tiny_folder, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy")
    shutil.copy(copy / "model.safetensors", copy / "generator")
    shutil.copy(copy / "config.json", copy / "generator")
    (copy / "generator" / "checksums.json").unlink()
    with pytest.raises(CheckpointError, match="is not a generator"):
        load(copy)


def test_the_config_names_the_architecture(tiny_folder):
    assert json.loads((tiny_folder / "config.json").read_text())["architectures"] == ["ElectraForPreTraining"]
    assert json.loads((tiny_folder / "generator/config.json").read_text())["architectures"] == ["ElectraForMaskedLM"]


def test_ids_and_places_outside_of_the_model_are_refused():
    model = load("embedded")
    with pytest.raises(DataError, match=r"^place 7 is outside of the 2 tokens$"):
        model.propose([5, 6], [7])
    with pytest.raises(DataError, match=r"^place -1 is outside"):
        model.propose([5, 6], [-1])
    for use in (model.replaced, lambda ids: model.propose(ids, [0])):
        with pytest.raises(DataError, match=r"^id 999999 is not one of the [\d,]+ in the model's vocabulary$"):
            use([999999])
