"""Sentence scores, and minimal pairs compared by them."""

import json
import math

import numpy as np
import pytest
import torch

import electra
from electra.errors import CheckpointError, TaskError
from electra.model.bodies import build_body
from electra.model.networks import EnergyModel, MaskedLM
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model

TEXTS = ["the chef ate the meal", "a cat", "the chef sat on a mat and then it was good . the cat ate soup on the mat ."]


@pytest.fixture
def masked_lm(tiny_config, tokenizer):
    torch.manual_seed(3)
    network = MaskedLM(build_body(tiny_config.model)).eval()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return Pretrained(network, tokenizer)


def write_pairs(path, *pairs, term="agreement"):
    records = [{"sentence_good": good, "sentence_bad": bad, "linguistics_term": term} for good, bad in pairs]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def test_a_discriminator_adds_the_chances_that_tokens_are_original(tiny_model):
    found = tiny_model.score(TEXTS[:2])
    for text, score in zip(TEXTS, found, strict=False):
        assert score == pytest.approx(
            sum(math.log1p(-token.probability) for token in tiny_model.detect(text)), rel=1e-4
        )


def test_a_long_text_is_read_in_windows_and_an_empty_one_scores_nothing(tiny_model):
    pieces = tiny_model.tokenizer.encode([TEXTS[2]])[0].ids
    assert len(pieces) > tiny_model.window
    long, empty = tiny_model.score([TEXTS[2], ""])
    assert empty == 0
    assert long < 0


@torch.no_grad()
def test_a_masked_lm_predicts_each_token_from_the_others(masked_lm):
    tokenizer, text = masked_lm.tokenizer, TEXTS[0]
    ids = tokenizer.encode([text])[0].ids
    expected = 0.0
    for place, token in enumerate(ids):
        framed = torch.tensor([[tokenizer.cls_id, *ids, tokenizer.sep_id]])
        framed[0, place + 1] = tokenizer.mask_id
        logits = masked_lm.network(framed, None, None).logits[0, place + 1]
        expected += logits.log_softmax(-1)[token].item()
    assert masked_lm.score([text, "a cat"])[0] == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def test_electric_adds_its_energies(tiny_config, tokenizer):
    network = EnergyModel(build_body(tiny_config.model)).eval()
    ids = tokenizer.encode(["a cat"])[0].ids
    framed = torch.tensor([[tokenizer.cls_id, *ids, tokenizer.sep_id]])
    expected = -network(framed).scores[0, 1:-1].sum().item()
    assert Pretrained(network, tokenizer).score(["a cat"])[0] == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_bare_encoder_scores_nothing(tiny_config, tokenizer):
    with pytest.raises(CheckpointError, match="cannot score texts: the model neither detects nor predicts tokens"):
        Pretrained(build_body(tiny_config.model), tokenizer).score(["a cat"])


def test_pairs_are_counted_by_phenomenon_and_a_tie_counts_half(tiny_folder, tiny_model, tmp_path):
    better, worse = sorted(
        ["the chef ate the meal", "the chef ate the soup"], key=lambda text: -tiny_model.score([text])[0]
    )
    write_pairs(tmp_path / "one.jsonl", (better, worse), (worse, better), (better, better))
    write_pairs(tmp_path / "two.jsonl", (better, worse), term="islands")
    (tmp_path / "three.jsonl").write_text(json.dumps({"sentence_good": worse, "sentence_bad": better}) + "\n")
    found = electra.evaluate(tiny_folder, ["task=blimp", f"data={tmp_path}"])
    assert found.metrics == {
        "accuracy": pytest.approx(2.5 / 5), "accuracy_agreement": 0.5, "accuracy_islands": 1.0, "accuracy_three": 0.0,
    }  # fmt: skip
    assert len(found.predictions) == 5
    one = electra.evaluate(tiny_folder, ["task=blimp", f"data={tmp_path / 'two.jsonl'}"])
    assert one.metrics["accuracy"] == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"sentence_good": "a"}', r"no column 'sentence_bad'"),
        ('{"sentence_good": "a", "sentence_bad": 5}', "sentence_good and sentence_bad must be texts"),
        ('{"sentence_good": "a", "sentence_bad": " "}', "sentence_good and sentence_bad must be texts"),
        ("{", "not a JSON record|not valid|line 1"),
    ],
)
def test_a_damaged_pair_is_named_with_its_line(tiny_folder, tmp_path, content, message):
    (tmp_path / "pairs.jsonl").write_text(content + "\n")
    with pytest.raises(electra.ElectraError, match=message):
        electra.evaluate(tiny_folder, ["task=blimp", f"data={tmp_path}"])


def test_files_without_a_pair_are_refused(tiny_folder, tmp_path):
    (tmp_path / "empty.jsonl").write_text("")
    for place in (tmp_path, tmp_path / "empty.jsonl"):
        with pytest.raises(TaskError, match=f"no pairs in {place}; each line has sentence_good and sentence_bad"):
            electra.evaluate(tiny_folder, ["task=blimp", f"data={place}"])


def test_pairs_need_a_place(tiny_folder, tmp_path):
    with pytest.raises(TaskError, match="which pairs\\? set data=DIR"):
        electra.evaluate(tiny_folder, ["task=blimp"])
    with pytest.raises(TaskError, match=r"no \.jsonl file in"):
        electra.evaluate(tiny_folder, ["task=blimp", f"data={tmp_path}"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["task=blimp", "batch_size=8"], "task=blimp has no setting batch_size; it takes data=DIR and device=DEVICE"),
        (["task=blimp", "device=gpu"], "device = "),
        (["task=blmp"], "no task 'blmp'; did you mean blimp"),
    ],
)
def test_settings_that_pairs_do_not_have_are_refused(tiny_folder, tmp_path, settings, message):
    write_pairs(tmp_path / "one.jsonl", ("a cat", "cat a"))
    with pytest.raises(electra.ElectraError, match=message):
        electra.evaluate(tiny_folder, [*settings, f"data={tmp_path}"])


def test_scores_are_the_same_in_any_company(tiny_model):
    together, alone = tiny_model.score(TEXTS), [tiny_model.score([text])[0] for text in TEXTS]
    np.testing.assert_allclose(together, alone, rtol=1e-4)


def test_a_masked_lm_is_evaluated_too(masked_lm, tmp_path):
    write_model(masked_lm, tmp_path / "model")
    write_pairs(tmp_path / "one.jsonl", ("the cat ate", "the cat the"))
    found = electra.evaluate(tmp_path / "model", ["task=blimp", f"data={tmp_path / 'one.jsonl'}"])
    assert found.metrics["accuracy"] in (0.0, 1.0)
