"""Sizes follow the corpus or the model that a run starts from, unless the user sets them."""

import shutil
import tomllib
from collections import Counter
from threading import current_thread

import numpy as np
import pytest

import electra
from electra.cli import main
from electra.config import preset_names
from electra.config.load import load_config
from electra.data.corpus.build import build_corpus
from electra.data.tokens.tokenizer import wordpiece
from electra.errors import ConfigError, DataError
from electra.model.bodies import build_body
from electra.model.networks import Discriminator
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model
from electra.recipes.corpora import Corpora
from electra.recipes.pretrain import check, pretrain

SMALL = "layers=1 hidden_size=32 heads=1 embedding_size=16 feed_forward_size=64".split()
SHORT = "steps=2 batch_size=4 warmup_steps=1".split()
FEW = [*(f"model.{key}" for key in SMALL), *(f"train.{key}" for key in SHORT), "evaluate.batches=1"]


@pytest.fixture(scope="module")
def another(tokenizer, tmp_path_factory):
    """A function from a length, a cut and more pieces of the vocabulary to a corpus."""
    folder = tmp_path_factory.mktemp("corpora")
    (folder / "text.txt").write_text("the cat sat on the mat .\nthe chef ate the meal .\n\n" * 300)

    def build(length, cut="packed", more=0):
        out = folder / f"{length}-{cut}-{more}"
        if not out.exists():
            pieces = sorted(tokenizer.backend.get_vocab(), key=tokenizer.backend.token_to_id)
            vocabulary = wordpiece([*pieces, *(f"more{number}" for number in range(more))])
            build_corpus([folder / "text.txt"], vocabulary, length=length, cut=cut, out=out, heldout=0.1, workers=0)
        return out

    return build


def fitted(preset, corpus, *overrides):
    return check(load_config(preset, [f"data={corpus}", *overrides]))


def refusal(preset, corpus, *overrides):
    with pytest.raises(ConfigError) as caught:
        fitted(preset, corpus, *overrides)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("preset", preset_names())
def test_every_preset_takes_the_sizes_of_the_corpus(another, tokenizer, preset):
    before, after = load_config(preset), fitted(preset, another(24, more=5))
    assert (after.train.length, after.model.vocab_size) == (24, tokenizer.vocab_size + 5)
    assert after.model.max_length == before.model.max_length
    sizes = {"length": 0, "start_length": None}
    ours, theirs = (config.train.model_copy(update=sizes) for config in (before, after))
    assert ours == theirs
    same = {"vocab_size": 0}
    assert before.model.model_copy(update=same) == after.model.model_copy(update=same)


@pytest.mark.parametrize("preset", ["small-muon", "tiny", "small"])
def test_a_preset_trains_on_a_corpus_of_another_length_and_vocabulary(another, tokenizer, tmp_path, preset):
    arguments = [f"data={another(24, more=5)}", f"out={tmp_path / 'run'}", *FEW]
    run = pretrain(load_config(preset, arguments))
    model = electra.load(run)
    assert model.encoder.config.vocab_size == tokenizer.vocab_size + 5
    assert model.window == 24 - 2
    stored = load_config(run)
    assert (stored.train.length, stored.model.vocab_size) == (24, tokenizer.vocab_size + 5)
    pretrain(load_config(preset, [*arguments, "train.steps=3"]))  # the same command resumes
    assert pretrain(load_config(run, ["train.steps=4"])) == run  # and so does the config of the run
    assert load_config(run).train.steps == 4


def test_long_sequences_raise_the_longest_that_a_model_takes(another):
    long = another(160)
    assert fitted("tiny", long).model.max_length == 160  # the preset says 128
    assert fitted("tiny", long, "model.max_length=512").model.max_length == 512
    assert (
        refusal("tiny", long, "model.max_length=128") == "train.length 160 exceeds model.max_length 128; raise that too"
    )


def test_what_the_user_sets_is_not_changed(another, tokenizer):
    explicit = ["train.length=24", f"model.vocab_size={tokenizer.vocab_size}", "model.token_types=1"]
    config = fitted("small", another(24), *explicit)
    assert (config.train.length, config.model.vocab_size, config.model.token_types) == (24, tokenizer.vocab_size, 1)


def test_an_embedding_may_be_a_little_larger_than_the_vocabulary(another):
    assert fitted("tiny", another(24), "model.vocab_size=128").model.vocab_size == 128


CONTRADICTIONS = [
    (
        "train",
        "length",
        128,
        "has sequences of 24 tokens, train.length is 128: set train.length=24, or build the corpus",
    ),
    ("model", "vocab_size", 8192, "has a vocabulary of 74, model.vocab_size is 8192: drop model.vocab_size, or build"),
    ("model", "vocab_size", 70, "has a vocabulary of 74, model.vocab_size is 70: drop model.vocab_size, or build"),
]


@pytest.mark.parametrize(("section", "key", "value", "message"), CONTRADICTIONS)
def test_a_size_on_the_command_line_that_contradicts_the_corpus_is_refused(another, section, key, value, message):
    """Even if the preset says the same, as tiny does of 8192 pieces."""
    corpus = another(24)
    assert refusal("tiny", corpus, f"{section}.{key}={value}").startswith(f"{corpus} {message}")


@pytest.mark.parametrize(("section", "key", "value", "message"), CONTRADICTIONS)
def test_a_size_in_a_file_that_contradicts_the_corpus_is_refused(another, tmp_path, section, key, value, message):
    corpus, file = another(24), tmp_path / "mine.toml"
    file.write_text(f'preset = "tiny"\n[{section}]\n{key} = {value}\n')
    assert refusal(file, corpus).startswith(f"{corpus} {message}")


@pytest.mark.parametrize(
    ("length", "start", "steps"), [(16, 16, 1000), (160, 16, 1000), (24, 8, 1000), (20, None, None), (25, None, None)]
)
def test_the_short_sequences_of_a_preset_are_fitted_to_the_length(another, length, start, steps):
    train = fitted("small-muon", another(length)).train
    assert (train.length, train.start_length, train.length_warmup_steps) == (length, start, steps)


def test_short_sequences_that_the_user_sets_are_not_changed(another):
    assert fitted("small-muon", another(24), "train.start_length=4").train.start_length == 4
    message = refusal("small-muon", another(24), "train.start_length=16")
    assert message == "train: start_length 16 does not divide length 24"


def test_a_packed_corpus_keeps_two_types_and_pairs_need_them(another):
    packed, pairs = another(24), another(24, cut="paper")
    assert fitted("tiny", packed).model.token_types == fitted("tiny", pairs).model.token_types == 2
    assert fitted("tiny", packed, "model.token_types=1").model.token_types == 1
    expected = f"{pairs} has two segments per sequence (--cut paper): set model.token_types=2"
    assert refusal("tiny", pairs, "model.token_types=1") == expected


def test_a_run_takes_the_sizes_of_the_model_that_it_starts_from(another, tokenizer, tmp_path):
    corpus = another(24)
    sizes = {"vocab_size": 128, "max_length": 48, "token_types": 3}
    shape = load_config("tiny", FEW).model.model_copy(update=sizes)
    write_model(Pretrained(Discriminator(build_body(shape)), tokenizer), tmp_path / "start")
    keys = [f"init={tmp_path / 'start'}", *FEW]
    found = fitted("tiny", corpus, *keys)
    assert found.model == shape
    assert found.train.length == 24
    run = pretrain(load_config("tiny", [f"data={corpus}", f"out={tmp_path / 'run'}", *keys]))
    assert electra.load(run).encoder.config.vocab_size == 128
    assert refusal("tiny", another(160), *keys) == "train.length 160 exceeds model.max_length 48"
    with pytest.raises(ConfigError, match=r"^init: the model has vocab_size 128, the config says 100$"):
        pretrain(load_config("tiny", [f"data={corpus}", f"out={tmp_path / 'other'}", *keys, "model.vocab_size=100"]))


def test_a_fitted_config_fits_again_unchanged(another):
    config = fitted("quick", another(24, more=5))
    assert check(config) == config


@pytest.mark.parametrize("objective", ["objective.name=mlm", "objective.generator.kind=unigram"])
def test_other_objectives_follow_the_corpus_too(another, tokenizer, tmp_path, objective):
    run = pretrain(load_config("tiny", [f"data={another(24)}", f"out={tmp_path / 'run'}", *FEW, objective]))
    assert electra.load(run).encoder.config.vocab_size == tokenizer.vocab_size


def test_without_a_corpus_nothing_is_fitted():
    assert check(load_config("quick")) == load_config("quick")


def test_a_dry_run_prints_the_fitted_sizes(another, tokenizer, tmp_path, capsys, monkeypatch):
    arguments = ["pretrain", "small-muon", f"data={another(24, more=5)}", f"out={tmp_path / 'run'}", "--dry-run"]
    monkeypatch.setattr("sys.argv", ["electra", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    printed = tomllib.loads(capsys.readouterr().out)
    assert (printed["train"]["length"], printed["train"]["start_length"]) == (24, 8)
    assert (printed["model"]["vocab_size"], printed["model"]["max_length"]) == (tokenizer.vocab_size + 5, 512)
    assert not (tmp_path / "run").exists()


def test_a_corpus_of_another_length_is_refused_in_one_line(config, corpus):
    with pytest.raises(
        ConfigError, match=r"has sequences of 16 tokens, train\.length is 8: set train\.length=16, or"
    ) as e:
        pretrain(config("train.length=8"))
    assert "\n" not in str(e.value)


def test_a_corpus_of_another_vocabulary_is_refused_in_one_line(config, tokenizer):
    with pytest.raises(
        ConfigError, match=f"has a vocabulary of {tokenizer.vocab_size}, model.vocab_size is 5000: drop model"
    ) as error:
        pretrain(config("model.vocab_size=5000"))
    assert "\n" not in str(error.value)


def test_two_segments_need_two_types(config, tokenizer, tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat .\nthe chef ate the meal .\n" * 40)
    build_corpus([tmp_path / "text.txt"], tokenizer, length=16, cut="paper", out=tmp_path / "paper", workers=0)
    with pytest.raises(ConfigError, match=r"has two segments per sequence \(--cut paper\): set model.token_types=2"):
        pretrain(config(f"data={tmp_path / 'paper'}", "model.token_types=1"))


def test_a_batch_far_larger_than_the_corpus_is_refused(another):
    config = load_config("tiny", [f"data={another(16)}", "train.batch_size=1000000"])
    with pytest.raises(ConfigError, match=r"^train.batch_size is 1000000, but .* has only \d+ sequences: lower it"):
        check(config)


def test_a_damaged_corpus_is_not_trained_on(corpus, config, tmp_path):
    damaged = shutil.copytree(corpus, tmp_path / "damaged")
    ids = np.load(damaged / "train-00000.npy", mmap_mode="r+")
    ids[:, 3] += 1
    ids.flush()
    with pytest.raises(DataError, match=r"damaged is damaged: train-00000\.npy does not match its checksum"):
        pretrain(config(f"data={damaged}"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("vocab_size", [1000, 100_000])
def test_pairs_of_tokens_are_counted_next_but_one_by_half(another, vocab_size):
    corpora = Corpora(load_config("tiny", [f"data={another(24)}"]))
    special = {number for name, number in corpora[0].manifest.special_ids.items() if name != "unk"}
    expected = Counter()
    for row in corpora[0].shards("train")[0].tolist():
        for distance in (1, 2):
            for pair in zip(row, row[distance:], strict=False):
                expected[pair] += 1 / distance if special.isdisjoint(pair) else 0
    pairs = corpora.token_pairs(vocab_size).result()
    found = dict(zip(map(tuple, pairs.indices().T.tolist()), pairs.values().tolist(), strict=True))
    assert found == +expected


def test_only_the_calling_thread_opens_shards_to_count_pairs(another, monkeypatch):
    opened_by, load = [], np.load
    monkeypatch.setattr(np, "load", lambda *args, **kwargs: opened_by.append(current_thread()) or load(*args, **kwargs))
    Corpora(load_config("tiny", [f"data={another(24)}"])).token_pairs(1000).result()
    assert set(opened_by) == {current_thread()}
