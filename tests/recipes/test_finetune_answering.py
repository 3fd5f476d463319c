"""Question answering from files to answers, with a small network that learns its few questions by heart."""

import json

import pytest
import torch

from electra.config.load import load_config, load_finetune_config
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.model.networks import Discriminator, build_networks
from electra.model.pretrained import Pretrained
from electra.recipes.convert import write_model
from electra.recipes.evaluate import evaluate, predict
from electra.recipes.finetune import finetune

CONTEXT = "the chef cooked a soup . then the cat ate it on the mat ."
WORDS = sorted({*CONTEXT.split(), *"who was bad ate cooked".split()})
QUESTIONS = {"who cooked": "the chef", "who ate": "the cat", "who was bad": None}


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    tokenizer = wordpiece([*SPECIAL_TOKENS, *WORDS])
    size = [f"model.vocab_size={tokenizer.vocab_size}", "model.layers=2", "model.max_length=32", "train.length=32"]
    config = load_config("tiny", size)
    encoder, generator = build_networks(config.model, config.objective.generator)
    folder = tmp_path_factory.mktemp("model") / "tiny"
    write_model(Pretrained(Discriminator(encoder), tokenizer, generator), folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    asked = [
        {
            "id": question,
            "question": question,
            "answers": [{"text": answer, "answer_start": CONTEXT.index(answer)}] if answer else [],
            "is_impossible": answer is None,
        }
        for question, answer in QUESTIONS.items()
    ]
    tree = {"data": [{"title": "", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}
    for split in ("train", "dev"):
        (folder / f"{split}.json").write_text(json.dumps(tree))
    return folder


@pytest.mark.parametrize("head", ["paper", "huggingface"])
def test_questions_are_learnt_scored_and_answered(model, data, tmp_path, head):
    settings = ["task=squad-2.0", f"model={model}", f"data={data}", f"head={head}", "epochs=100", "batch_size=4"]
    settings += ["learning_rate=1e-3", "layer_decay=1.0", "optimizer=adamw", "dropout=0.0", f"out={tmp_path / 'run'}"]
    results = finetune(load_finetune_config("squad", settings))
    assert results["median"]["best_f1"] == 1.0
    found = evaluate(tmp_path / "run")
    assert found.metrics["exact"] == found.metrics["has_answer_f1"] == found.metrics["no_answer_f1"] == 1.0
    expected = {question: answer or "" for question, answer in QUESTIONS.items()}
    assert json.loads(found.files["predictions.json"]) == expected
    questions = tmp_path / "questions.jsonl"
    questions.write_text(json.dumps({"question": "who ate", "context": CONTEXT}) + "\n")
    [answer] = predict(tmp_path / "run", questions)
    assert (answer["id"], answer["text"], answer["best"][0]["start"]) == ("1", "the cat", CONTEXT.index("the cat"))
