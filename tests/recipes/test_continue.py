"""Continuing a model in one call: `train` with `init`."""

import json
import shutil

import pytest
import torch
from sentence_transformers import SentenceTransformer

from electra.config.load import dump_config, load_config
from electra.data.settings import Reading
from electra.data.tokens.tokenizer import load_tokenizer
from electra.errors import CheckpointError, ConfigError, DataError
from electra.model.networks import TaskNetwork
from electra.model.pretrained import Pretrained, load
from electra.model.sentences import SentenceHead
from electra.objectives.base import FRESH
from electra.objectives.build import build_objective
from electra.recipes import speed, start
from electra.recipes.convert import write_model
from electra.recipes.plan import describe, make_plan
from electra.recipes.start import compare, find_start
from electra.recipes.train import train
from electra.training.run import START

HOURS = 0.1
GENTLE = ["train.steps=2", "train.learning_rate=1e-9", "train.batch_size=8"]


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "meals.txt"
    cooks, dishes = "chef cat dog".split(), "soup meal bread".split()
    path.write_text(
        "\n\n".join(f"the {c} ate the {d} {n} and then it was good ." for c in cooks for d in dishes for n in range(20))
    )
    return path


@pytest.fixture(scope="module")
def continued(tiny_folder, text, tmp_path_factory):
    folder, said = tmp_path_factory.mktemp("runs") / "run", []
    train(text, hours=HOURS, out=folder, init=tiny_folder, old_text=text, overrides=GENTLE, say=said.append)
    return folder, said


def test_one_call_continues_a_model_with_its_vocabulary_and_length(continued, tiny_model):
    folder, said = continued
    model, config = load(folder, device="cpu"), load_config(folder)
    assert model.tokenizer.fingerprint == tiny_model.tokenizer.fingerprint
    assert (config.train.length, config.train.optimizer) == (16, "adamw")
    torch.testing.assert_close(model.network.state_dict(), tiny_model.network.state_dict(), rtol=0, atol=1e-6)
    torch.testing.assert_close(model.generator.state_dict(), tiny_model.generator.state_dict(), rtol=0, atol=1e-6)
    assert said[0].startswith("reading ")
    assert "sequences of 16 tokens, adamw at a rate of 1e-09, 1 step of warm-up" in "\n".join(said)
    assert any(line.endswith("with its own vocabulary; objective electra") for line in said)
    assert any(line.startswith("warning: ") and line.endswith("add --new-vocabulary") for line in said)  # the numbers


def test_a_modern_body_continues_with_longer_sequences(text, tmp_path):
    shape = ["model.hidden_size=8", "model.heads=1", "model.feed_forward_size=8", "model.max_length=16"]
    keys = [*shape, "train.batch_size=8", "train.steps=1", "train.length=16", "train.start_length=8"]
    first = train(text, hours=HOURS, out=tmp_path / "first", overrides=["model.window=8", *keys])
    longer = ["train.length=32", "train.steps=1", "train.batch_size=8"]
    second = train(text, hours=HOURS, out=tmp_path / "second", init=first, overrides=longer)
    config = load_config(second)
    assert (config.model.body, config.model.max_length, config.train.length) == ("modern", 32, 32)


def test_forgetting_is_measured_on_old_text(continued):
    folder, said = continued
    found = json.loads((folder / start.COMPARISON).read_text())
    assert found["old_text_before"] == found["old_text_after"]
    assert said[-1].startswith("forgetting: on the old text, the original of a sentence beats a copy")


def test_the_same_call_resumes_and_another_model_is_refused(continued, tiny_folder, text):
    folder, _ = continued
    copied = folder / START / "model" / "config.json"
    whole = copied.read_bytes()
    copied.write_bytes(whole[:50])
    train(text, hours=HOURS, out=folder, init=tiny_folder, overrides=GENTLE)
    assert copied.read_bytes() == whole
    with pytest.raises(ConfigError, match=r"planned with different init"):
        train(text, hours=HOURS, out=folder, init=tiny_folder / "generator", overrides=GENTLE)


def test_a_new_vocabulary_is_trained_on_the_text(tiny_folder, tiny_model, text, tmp_path):
    settings = [*GENTLE, "model.vocab_size=100"]
    run = train(
        text,
        hours=HOURS,
        out=tmp_path / "run",
        init=tiny_folder,
        new_vocabulary=True,
        overrides=settings,
        say=(said := []).append,
    )
    model = load(run, device="cpu")
    assert model.tokenizer.fingerprint == load_tokenizer(run / "tokenizer").of_length(16).fingerprint
    assert any("pieces keep their embeddings" in line for line in said)
    old, new = (m.tokenizer.backend.token_to_id("chef") for m in (tiny_model, model))
    torch.testing.assert_close(model.network.vocabulary[new], tiny_model.network.vocabulary[old], rtol=0, atol=1e-6)


def test_a_sentence_transformer_keeps_its_layout_with_a_warning_if_its_similarities_change(
    tiny_model, text, tmp_path, monkeypatch
):
    head = SentenceHead(tiny_model.encoder.config, "first", {"query": "the "}, normalize=False, longest=16)
    write_model(Pretrained(TaskNetwork(tiny_model.encoder, head), tiny_model.tokenizer), tmp_path / "theirs")
    said = []
    for _ in range(2):
        run = train(
            text, hours=HOURS, out=tmp_path / "run", init=tmp_path / "theirs", overrides=GENTLE, say=said.append
        )
        monkeypatch.setattr(start, "SIMILAR", 1.1)
    assert any(
        line.endswith("with its own vocabulary, a new generator, a new discriminator head; objective electra")
        for line in said
    )
    assert "similarities of sentences correlate by 1.00 with those before training" in said
    assert said[-1].startswith("warning: similarities of sentences correlate by 1.00")
    again = SentenceTransformer(str(run / "model"), device="cpu")
    assert (len(again), again[1].pooling_mode, again.max_seq_length) == (2, "cls", 16)
    assert again.prompts["query"] == "the "


def test_similarities_are_not_compared_on_fewer_than_three_sentences(tiny_model, tmp_path):
    head = SentenceHead(tiny_model.encoder.config)
    write_model(Pretrained(TaskNetwork(tiny_model.encoder, head), tiny_model.tokenizer), tmp_path / "model")
    (tmp_path / "text.txt").write_text("the chef ate the meal .\n\nthe cat sat on the mat .\n\nthe end")
    (line,) = compare(tmp_path, tmp_path, [str(tmp_path / "text.txt")], [], Reading())
    assert line == "similarities: not compared, since the text has fewer than 3 sentences of 5 to 30 words"
    assert json.loads((tmp_path / start.COMPARISON).read_text()) == {}


def test_a_model_continues_with_the_objective_of_its_run_or_one_that_fits_its_head(tiny_folder, tiny_model, tmp_path):
    masked_lm = find_start(str(tiny_folder / "generator"), new_vocabulary=False)
    assert masked_lm.config.objective.name == "mlm"
    shutil.copytree(tiny_folder, tmp_path / "model", ignore=shutil.ignore_patterns("generator"))
    without = find_start(str(tmp_path / "model"), new_vocabulary=False)
    assert without.lacks(without.config.objective) == ["generator"]
    unigram = load_config("tiny", ["objective.generator.kind=unigram"])
    (tmp_path / "config.toml").write_text(dump_config(unigram))
    (tmp_path / "inputs.json").write_text("{}")
    ours = find_start(str(tmp_path), new_vocabulary=True)
    assert (ours.config.objective, ours.lacks(unigram.objective)) == (unigram.objective, [])
    assert ours.config.train.learning_rate == pytest.approx(masked_lm.config.train.learning_rate / start.RATE_SHARE)


@pytest.mark.parametrize(
    ("asked", "error", "message"),
    [
        (
            {"init": None, "new_vocabulary": True},
            ConfigError,
            "^--new-vocabulary changes the vocabulary of a model: add",
        ),
        (
            {"lowercase": False},
            ConfigError,
            "^--cased is for a new vocabulary, and the model keeps its own: add --new-",
        ),
        ({"init": "./nowhere"}, CheckpointError, r"^no file or folder \./nowhere$"),
        ({"overrides": ["train.length=32"]}, ConfigError, r"^train\.length 32 exceeds model\.max_length 16$"),
        ({"overrides": ["model.layers=1"]}, ConfigError, r"^init: .*/tiny has layers 2, the config says 1$"),
        ({"overrides": ["init=x"]}, ConfigError, "^init cannot be set here; use --init instead$"),
        ({"old_text": "./nowhere.txt"}, DataError, r"^no file or folder \./nowhere\.txt"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(asked, error, message, text, tiny_folder, tmp_path):
    with pytest.raises(error, match=message):
        train(text, **{"hours": HOURS, "out": tmp_path / "run", "init": tiny_folder, **asked})
    assert not (tmp_path / "run").exists()


def test_a_large_model_is_timed_with_few_sequences_on_a_cpu(monkeypatch):
    sizes, run = [], speed._run
    monkeypatch.setattr(speed, "_run", lambda step, ids, steps: sizes.append(len(ids)) or run(step, ids, steps))
    config = load_config("tiny", ["model.layers=1", "train.length=16"])
    for most, rows in ((1000.0, 8), (0.0, 1)):
        monkeypatch.setattr(speed, "MOST_SECONDS", most)
        sizes.clear()
        speed.measure_speed(config, torch.device("cpu"))
        assert (sizes[0], set(sizes[1:])) == (1, {rows})


@pytest.mark.parametrize(
    ("keys", "new"),
    [
        ([], []),
        (["objective.generator.kind=two_tower"], ["two-tower generator"]),
        (["objective.generator.kind=uniform"], []),
        (["objective.name=corrective"], ["correcting head"]),
        (["objective.name=electric"], ["two-tower generator", "energy head"]),
        (["objective.name=replace_mlm"], ["masked-LM head"]),
        (["objective.name=mlm"], ["masked-LM head"]),
    ],
)
def test_the_plan_names_what_starts_from_random_weights(tiny_folder, tiny_model, text, keys, new):
    start = find_start(str(tiny_folder), new_vocabulary=False)
    plan = make_plan([text], hours=HOURS, overrides=[*GENTLE, *keys], start=start)
    said = ", ".join(["with its own vocabulary", *(f"a new {part}" for part in new)])
    assert any(f" {said}; objective " in line for line in describe(plan))
    config = plan.config()
    objective = build_objective(config.objective, config.model, tiny_model.tokenizer)
    assert sorted(objective.adopt(tiny_model)) == sorted(f"has no {part}: {FRESH}" for part in new)
