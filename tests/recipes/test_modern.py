"""The body `modern` through every command, and its exports in the pipelines of `transformers`."""

import json
import math
import re

import pytest
import torch
from transformers import AutoModel, AutoTokenizer, ModernBertForMultipleChoice, ModernBertForQuestionAnswering, pipeline

import electra
from electra.config.load import load_config
from electra.recipes.corpora import Corpora
from electra.recipes.pretrain import pretrain
from electra.recipes.tuning import with_head

MODERN = ["model.body=modern", "model.window=8", "objective.generator.width=1.0", "objective.generator.sharing=gdes"]
VARIANTS = {
    "corrective": ["objective.name=corrective"],
    "mlm": ["objective.name=mlm"],
    "electra_15": ["objective.name=electra_15"],
    "replace_mlm": ["objective.name=replace_mlm"],
    "all_tokens_mlm": ["objective.name=all_tokens_mlm"],
    "electric": ["objective.name=electric"],
    "two_stage": ["objective.algorithm=two_stage", "objective.generator.sharing=none"],
    "adversarial": ["objective.algorithm=adversarial"],
    "narrow": ["objective.generator.width=0.5", "objective.generator.sharing=none"],
    "shared": ["objective.generator.sharing=embeddings", "train.optimizer=muon"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("modern")


@pytest.fixture(scope="module")
def run(corpus, tokenizer, folder):
    shape = ["hidden_size=32", "layers=3", "heads=2", "feed_forward_size=48", "window=8"]
    short = ["steps=10", "batch_size=8", "warmup_steps=2"]
    keys = [*(f"model.{key}" for key in shape), *(f"train.{key}" for key in short)]
    often = ["evaluate.every=5", "evaluate.batches=2", "checkpoint.every=5", "log.every=1"]
    return pretrain(load_config("modern-7x256", [f"data={corpus}", f"out={folder / 'run'}", *keys, *often]))


@pytest.fixture(scope="module")
def exported(run, folder):
    return electra.export(run, folder / "exported")


@pytest.mark.parametrize("name", VARIANTS)
def test_every_objective_trains_it(name, config, held_out):
    run = pretrain(config(*MODERN, *VARIANTS[name]))
    assert all(line["heldout_loss"] > 0 for line in held_out(run))
    assert electra.load(run).encoder.config.body == "modern"


def test_sizes_follow_the_corpus_without_token_types(run):
    model = load_config(run).model
    assert not hasattr(model, "token_types")
    assert model.vocab_size == Corpora(load_config(run)).tokenizer.vocab_size


def test_an_export_has_what_transformers_needs_and_nothing_else(exported):
    described = json.loads((exported / "config.json").read_text())
    assert described["architectures"] == ["ModernBertForTokenClassification"]
    assert "auto_map" not in described
    ids = AutoTokenizer.from_pretrained(exported)
    assert [described[f"{name}_token_id"] for name in ("pad", "cls", "sep")] == [
        ids.pad_token_id, ids.cls_token_id, ids.sep_token_id,
    ]  # fmt: skip
    assert not list(exported.rglob("*.py"))


def test_a_pipeline_finds_replaced_tokens_with_our_probability(exported, run):
    text = "the chef sat the meal ."
    ours = [token.probability for token in electra.load(run).detect(text)]
    verdicts = pipeline("token-classification", model=str(exported), ignore_labels=[])(text)
    theirs = [found["score"] if found["entity"] == "replaced" else 1 - found["score"] for found in verdicts]
    assert theirs == pytest.approx(ours, abs=1e-5)


@pytest.mark.parametrize("body", ["modern", "electra"])
def test_the_code_of_the_card_gives_our_probability(exported, tiny_folder, tmp_path, body):
    folder = exported if body == "modern" else electra.export(tiny_folder, tmp_path / "electra")
    code = re.search(r"```python\n(.+?)```", (folder / "README.md").read_text(), re.DOTALL)[1]
    found = {"FOLDER": str(folder)}
    exec(code, found)
    ours = [token.probability for token in electra.load(folder).detect("the chef ate the meal")]
    assert found["replaced"][0, 1:-1].tolist() == pytest.approx(ours, abs=1e-5)


def test_a_pipeline_fills_masks_with_the_generator(exported):
    fill = pipeline("fill-mask", model=str(exported / "generator"))
    best = fill("the chef ate the [MASK] .", top_k=1)[0]
    assert 0 < best["score"] <= 1


def test_vectors_are_those_of_automodel(exported):
    tokens = AutoTokenizer.from_pretrained(exported)("the chef ate", return_tensors="pt")
    assert "token_type_ids" not in tokens
    with torch.no_grad():
        theirs = AutoModel.from_pretrained(exported)(**tokens).last_hidden_state.mean(1)
    torch.testing.assert_close(
        torch.from_numpy(electra.load(exported).encode(["the chef ate"])), theirs, rtol=0, atol=1e-5
    )


def test_training_continues_from_an_import(exported, run, corpus, folder):
    electra.import_model(exported, folder / "imported")
    config = load_config(folder / "imported")
    assert config.model.body == "modern"
    keys = [f"data={corpus}", f"out={folder / 'again'}", f"init={folder / 'imported'}", "train.steps=2"]
    keys += ["train.batch_size=8", "train.learning_rate=1e-12", "train.warmup_steps=0"]
    again = electra.load(pretrain(load_config(folder / "imported", keys)))
    torch.testing.assert_close(again.encoder.state_dict(), electra.load(run).encoder.state_dict(), rtol=1e-6, atol=1e-7)


def test_a_tuned_classifier_answers_in_a_pipeline(run, folder):
    table = folder / "table.csv"
    table.write_text("text,label\n" + "the cat sat,yes\nthe dog ate,no\n" * 8)
    keys = [f"model={run}", f"data={table}", f"out={folder / 'tuned'}", "epochs=1.0", "batch_size=4", "pooling=mean"]
    electra.finetune(electra.load_finetune_config("table", keys))
    electra.export(folder / "tuned", folder / "tuned-exported")
    described = json.loads((folder / "tuned-exported" / "config.json").read_text())
    assert described["architectures"] == ["ModernBertForSequenceClassification"]
    assert described["classifier_pooling"] == "mean"
    answer = pipeline("text-classification", model=str(folder / "tuned-exported"))("the cat sat")[0]
    (folder / "one.csv").write_text("text\nthe cat sat\n")
    ours = next(iter(electra.predict(folder / "tuned", folder / "one.csv")))
    assert answer["label"] == ours["label"]
    assert answer["score"] == pytest.approx(ours["probabilities"][ours["label"]], abs=1e-4)


def tuned_and_exported(run, folder, preset, *keys):
    """Return a fine-tuned run, and the folder that it is exported to."""
    out = folder / preset
    fast = ["epochs=2.0", "batch_size=4", "learning_rate=1e-2", "pooling=mean"]
    electra.finetune(electra.load_finetune_config(preset, [f"model={run}", f"out={out}", *fast, *keys]))
    return out, electra.export(out, folder / f"{preset}-exported")


def test_a_tuned_tagger_answers_in_a_pipeline(run, folder):
    (folder / "words").mkdir()
    for split in ("train", "dev"):
        (folder / "words" / f"{split}.txt").write_text("the D\ncat N\nsat V\n\nthe D\nchef N\nate V\n\n" * 8)
    tuned, exported = tuned_and_exported(run, folder, "tagging", "task=pos", f"data={folder / 'words'}")
    (folder / "sentence.txt").write_text("the cat ate the meal\n")
    (ours,) = electra.predict(tuned, folder / "sentence.txt")
    theirs = pipeline("token-classification", model=str(exported), ignore_labels=[])("the cat ate the meal")
    assert [found["entity"] for found in theirs] == ours["tags"]
    assert [found["score"] for found in theirs] == pytest.approx(ours["probabilities"], abs=1e-5)
    assert json.loads((exported / "config.json").read_text())["architectures"] == ["ModernBertForTokenClassification"]


def test_a_tuned_chooser_answers_in_transformers(run, folder):
    (folder / "choices").mkdir()
    row = {"context": "the chef", "options": ["sat on the cat", "ate"], "label": 1}
    for split in ("train", "dev"):
        (folder / "choices" / f"{split}.jsonl").write_text((json.dumps(row) + "\n") * 8)
    tuned, exported = tuned_and_exported(run, folder, "choice", f"data={folder / 'choices'}")
    (ours,) = electra.predict(tuned, first_line(folder / "choices" / "dev.jsonl"))
    pairs = [[row["context"], option] for option in row["options"]]
    tokens = AutoTokenizer.from_pretrained(exported)(pairs, padding=True, return_tensors="pt")
    model = ModernBertForMultipleChoice.from_pretrained(exported)
    with torch.no_grad():
        theirs = model(**{name: rows[None] for name, rows in tokens.items()}).logits.softmax(-1)
    assert ours["probabilities"] == pytest.approx(theirs[0].tolist(), abs=1e-5)
    assert max(ours["probabilities"]) > 0.6  # the options differ


def test_a_tuned_reader_answers_in_transformers(run, folder):
    (folder / "read").mkdir()
    context = "the chef ate the soup and the cat sat on the mat ."
    pairs = [("the chef ate", "the soup"), ("the cat sat on", "the mat")] * 8
    asked = [
        {"id": str(number), "question": question, "answers": [{"text": text, "answer_start": context.index(text)}]}
        for number, (question, text) in enumerate(pairs)
    ]
    for split in ("train", "dev"):
        tree = {"data": [{"title": "", "paragraphs": [{"context": context, "qas": asked}]}]}
        (folder / "read" / f"{split}.json").write_text(json.dumps(tree))
    tuned, exported = tuned_and_exported(run, folder, "squad", "task=squad-1.1", f"data={folder / 'read'}")
    (folder / "asked.jsonl").write_text(json.dumps({"question": "the chef ate", "context": context}) + "\n")
    (ours,) = electra.predict(tuned, folder / "asked.jsonl")
    tokens = AutoTokenizer.from_pretrained(exported)("the chef ate", context, return_tensors="pt")
    with torch.no_grad():
        scores = ModernBertForQuestionAnswering.from_pretrained(exported)(**tokens)
    inside = [place for place, part in enumerate(tokens.sequence_ids()) if part == 1]
    texts = {}
    for first in inside:
        for last in inside[inside.index(first) :]:
            text = context[tokens.token_to_chars(first).start : tokens.token_to_chars(last).end]
            score = (scores.start_logits[0, first] + scores.end_logits[0, last]).item()
            texts[text] = max(score, texts.get(text, score))
    best, second = sorted(texts, key=texts.__getitem__, reverse=True)[:2]
    assert [answer["text"] for answer in ours["best"][:2]] == [best, second]
    odds = ours["best"][0]["probability"] / ours["best"][1]["probability"]
    assert odds == pytest.approx(math.exp(texts[best] - texts[second]), rel=1e-3)


def first_line(path):
    """Write the first line of a file to one of its own."""
    path.with_stem("first").write_text(path.read_text().splitlines()[0] + "\n")
    return path.with_stem("first")


@pytest.mark.parametrize("preset", ["glue", "squad", "tagging"])
def test_its_usual_head_is_that_of_transformers(run, tiny_folder, preset):
    config = electra.load_finetune_config(preset, ["task=mrpc"])
    assert with_head(config, electra.load(run)).head == "huggingface"
    assert with_head(config, electra.load(tiny_folder)).head == "paper"


def test_the_papers_head_on_it_is_trained_but_not_exported(run, folder):
    (folder / "few.csv").write_text("text,label\n" + "the cat sat,yes\nthe dog ate,no\n" * 8)
    keys = [f"model={run}", f"data={folder / 'few.csv'}", f"out={folder / 'paper'}", "epochs=0.5", "batch_size=4"]
    electra.finetune(electra.load_finetune_config("table", [*keys, "head=paper"]))
    with pytest.raises(electra.ElectraError, match="no ModernBert class with the paper's head; fine-tune with"):
        electra.export(folder / "paper", folder / "paper-exported")
    assert not (folder / "paper-exported").exists()
