"""Starting from weights that exist: what is taken, what is missing, what does not fit."""

from shutil import rmtree

import pytest
import torch

import electra
from electra.data.corpus.build import build_corpus
from electra.data.tokens.tokenizer import wordpiece
from electra.errors import CheckpointError, ConfigError
from electra.model.tensors import CORRECTOR, read_safe, write_tensors
from electra.recipes.pretrain import pretrain
from electra.recipes.start import find_start

LEARNING = ["train.steps=60", "train.learning_rate=5e-3", "evaluate.every=100", "checkpoint.every=100", "log.every=100"]


@pytest.mark.parametrize("sharing", ["embeddings", "none", "gdes"])
def test_a_run_starts_from_the_networks_of_another(config, records, held_out, sharing):
    kind = f"objective.generator.sharing={sharing}"
    first = pretrain(config(kind, *LEARNING, out="first"))
    second = pretrain(config(kind, f"init={first}", "train.steps=1", out="second"))
    assert not any("warning" in line and line["step"] == 0 for line in records(second))
    assert held_out(second)[0]["heldout_loss"] == pytest.approx(held_out(first)[-1]["heldout_loss"], rel=1e-4)


def test_networks_that_are_one_start_from_the_others_discriminator(config):
    first = pretrain(config("objective.generator.width=1.0", *LEARNING, out="first"))
    whole = ["objective.generator.width=1.0", "objective.generator.sharing=all"]
    second = pretrain(config(*whole, f"init={first}", "train.steps=1", "train.learning_rate=1e-9", out="second"))
    found, expected = (electra.load(run).encoder.state_dict() for run in (second, first))
    for name, weight in expected.items():
        torch.testing.assert_close(found[name], weight, rtol=0, atol=1e-6, msg=name)


def test_networks_that_are_one_need_a_generator_of_their_size(config):
    first = pretrain(config("train.steps=1", out="first"))
    whole = ["objective.generator.width=1.0", "objective.generator.sharing=all"]
    with pytest.raises(ConfigError, match=r"^init: the generator has hidden_size 16, the config says 32$"):
        pretrain(config(*whole, f"init={first}", out="second"))


def test_other_token_types_are_refused(config):
    first = pretrain(config("train.steps=1", out="first"))
    with pytest.raises(ConfigError, match=r"^init: the model has token_types 2, the config says 3$"):
        pretrain(config("model.token_types=3", f"init={first}", out="second"))


def test_embeddings_that_a_generator_loses_are_spoken_of(config, records):
    first = pretrain(config(*LEARNING, "objective.generator.sharing=gdes", out="first"))
    second = pretrain(config(f"init={first}", "train.steps=1", out="second"))
    (warning,) = [line["warning"] for line in records(second) if "warning" in line and line["step"] == 0]
    assert warning == f"{first} has a generator with embeddings of its own: it shares the model's instead"


def test_two_stages_start_from_a_model_whatever_its_generator(config, held_out):
    first = pretrain(config(*LEARNING, "objective.name=mlm", out="first"))
    stages = ["objective.algorithm=two_stage", "objective.generator.width=1.0", "objective.generator.sharing=none"]
    second = pretrain(config(*stages, f"init={first}", "train.steps=2", out="second"))
    began = held_out(second / "first_stage")[0]["heldout_mlm_loss"]
    assert began == pytest.approx(held_out(first)[-1]["heldout_mlm_loss"], rel=1e-4)
    detector = pretrain(config("train.steps=1", out="detector"))
    pretrain(config(*stages, f"init={detector}", "train.steps=2", out="third"))


def test_a_run_that_has_begun_no_longer_needs_what_it_started_from(config, records):
    first = pretrain(config("train.steps=1", out="first"))
    pretrain(config(f"init={first}", "train.steps=2", out="second"))
    rmtree(first)
    assert records(pretrain(config(f"init={first}", "train.steps=3", out="second")))[-1]["step"] == 3


def test_a_missing_generator_is_built_with_a_warning(config, records, tmp_path):
    electra.export(pretrain(config("train.steps=1", out="first")), tmp_path / "exported")
    rmtree(tmp_path / "exported" / "generator")
    electra.import_model(tmp_path / "exported", tmp_path / "imported")
    second = pretrain(config(f"init={tmp_path / 'imported'}", "train.steps=1", out="second"))
    (warning,) = [line["warning"] for line in records(second) if "warning" in line and line["step"] == 0]
    assert warning.endswith("has no generator: it starts from random weights")


def test_a_correcting_head_starts_from_a_masked_lm_or_with_a_warning(config, records, held_out):
    lacking = "has no correcting head: it starts from random weights"
    masked_lm = pretrain(config(*LEARNING, "objective.name=mlm", out="masked_lm"))
    detection = pretrain(config("train.steps=1", out="detection"))
    losses = []
    for start in (masked_lm, detection):
        run = pretrain(config("objective.name=corrective", f"init={start}", "train.steps=1", out=f"from_{start.name}"))
        warned = any(line.get("warning", "").endswith(lacking) for line in records(run))
        assert warned == (start is detection)
        losses.append(held_out(run)[0]["heldout_mlm_loss"])
    assert losses[0] < losses[1] - 0.5


@pytest.mark.parametrize("exported", [False, True])
def test_a_run_continues_with_its_correcting_head(config, records, held_out, tmp_path, exported):
    first = pretrain(config(*LEARNING, "objective.name=corrective", out="first"))
    start = tmp_path / "exported"
    electra.export(first, start)
    settings = ["objective.name=corrective", f"init={start if exported else first}", "train.steps=1"]
    second = pretrain(config(*settings, out="second"))
    assert not any("warning" in line and line["step"] == 0 for line in records(second))
    found = find_start(str(first), new_vocabulary=False)
    assert not found.lacks(found.config.objective)
    loss = held_out(first)[-1]["heldout_mlm_loss"]
    assert held_out(second)[0]["heldout_mlm_loss"] == pytest.approx(loss, rel=1e-4)


def test_a_correcting_head_that_is_missing_is_named_and_a_damaged_one_is_refused(config, tmp_path):
    first = pretrain(config("train.steps=1", "objective.name=corrective", out="first"))
    path = first / "model" / CORRECTOR
    (first / "model" / "checksums.json").unlink()
    path.rename(first / "aside")
    found = find_start(str(first), new_vocabulary=False)
    assert found.lacks(found.config.objective) == ["correcting head"]
    (first / "aside").rename(path)
    write_tensors({**read_safe(path), "bias": torch.zeros(3)}, path)
    with pytest.raises(CheckpointError, match=rf"bias in .*{CORRECTOR} has shape \(3,\), its config.json asks for "):
        pretrain(config("objective.name=corrective", f"init={first}", out="second"))


def test_imported_weights_bring_their_generator(config, held_out, tmp_path):
    first = pretrain(config(*LEARNING, out="first"))
    electra.export(first, tmp_path / "exported")
    electra.import_model(tmp_path / "exported", tmp_path / "imported")
    second = pretrain(config(f"init={tmp_path / 'imported'}", "train.steps=1", out="second"))
    assert held_out(second)[0]["heldout_loss"] == pytest.approx(held_out(first)[-1]["heldout_loss"], rel=1e-5)


def test_weights_of_another_size_are_refused_in_one_line(config):
    first = pretrain(config("train.steps=1", out="first"))
    with pytest.raises(ConfigError, match=r"init: the model has hidden_size 32, the config says 64$"):
        pretrain(config(f"init={first}", "model.hidden_size=64", out="second"))


def test_weights_of_another_vocabulary_than_the_corpus_are_refused_whatever_the_size(config, tokenizer, tmp_path):
    pieces = [piece for piece in tokenizer.backend.get_vocab() if piece != "cat"]
    (tmp_path / "text.txt").write_text("the chef ate the soup .\n\n" * 40)
    build_corpus([tmp_path / "text.txt"], wordpiece(pieces), length=16, out=tmp_path / "foreign", workers=0)
    first = pretrain(config("train.steps=1", out="first"))
    with pytest.raises(
        ConfigError, match=rf"another vocabulary than .*: build the corpus with --tokenizer {first}/model$"
    ):
        pretrain(config(f"init={first}", f"data={tmp_path / 'foreign'}", "model.vocab_size=5000", out="second"))
    with pytest.raises(ConfigError, match=rf"of {tokenizer.vocab_size}, model\.vocab_size is 5000: drop model"):
        pretrain(config(f"init={first}", "model.vocab_size=5000", out="second"))


def test_weights_of_another_vocabulary_of_the_same_size_are_refused_in_one_line(config, tokenizer):
    first = pretrain(config("train.steps=1", out="first"))
    pieces = tokenizer.backend.get_vocab()
    pieces["cat"], pieces["dog"] = pieces["dog"], pieces["cat"]
    wordpiece(sorted(pieces, key=pieces.__getitem__)).save(first / "model")
    (first / "model" / "checksums.json").unlink()
    with pytest.raises(ConfigError, match=r"another vocabulary than the corpus, such as 'dog' for 'cat': build the"):
        pretrain(config(f"init={first}", out="second"))


@pytest.mark.parametrize("generator", ["kind=unigram", "sharing=embeddings", "sharing=none", "sharing=gdes"])
def test_token_embeddings_start_from_the_text(config, tokenizer, generator):
    settings = ["embeddings=cooccurrence", "train.steps=1", "train.learning_rate=1e-9"]
    model = electra.load(pretrain(config(f"objective.generator.{generator}", *settings)))
    ids = [encoding.ids[0] for encoding in tokenizer.encode("chef cat ate sat".split())]
    chef, cat, ate, sat = model.encoder.embeddings.vocabulary[ids]
    assert (chef - cat).norm() < 0.5 * (chef - ate).norm()
    assert (ate - sat).norm() < 0.5 * (ate - chef).norm()
