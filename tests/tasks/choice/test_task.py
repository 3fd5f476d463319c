import io
import json
import random
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import electra
from electra.cli.commands import app
from electra.config.load import load_finetune_config
from electra.errors import TaskError
from electra.model.bodies import build_body
from electra.model.networks import Discriminator
from electra.model.pretrained import Pretrained
from electra.playground.forms import answer
from electra.recipes.convert import write_model
from electra.recipes.evaluate import evaluate, load_tuned, predict
from electra.tasks.base import Notes
from electra.tasks.batches import make_batch
from electra.tasks.build import build_task
from electra.tasks.choice.columns import Choice
from electra.tasks.choice.head import ChoiceHead, HuggingFaceChoiceHead

ENDS = ["soup", "mat", "meal", "dog"]
FAST = ["epochs=4", "batch_size=8", "learning_rate=2e-3", "layer_decay=1.0", "optimizer=adamw", "max_length=12"]


def rows(count: int, seed: int) -> list[dict]:
    """The right option is the one that was good; there are two to four options."""
    source, found = random.Random(seed), []
    for number in range(count):
        options = [f"it was {end}" for end in source.sample(ENDS, source.randint(1, 3))]
        right = source.randint(0, len(options))
        options.insert(right, "it was good")
        found.append({"id": number, "context": f"the {source.choice(ENDS)} and", "options": options, "label": right})
    return found


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("choices")
    for split, count in (("train", 96), ("dev", 40)):
        write(folder / f"{split}.jsonl", rows(count, seed=count))
    write(folder / "test.jsonl", [{key: row[key] for key in ("id", "context", "options")} for row in rows(5, seed=1)])
    return folder


@pytest.fixture(scope="module")
def fresh(tiny_config, tokenizer, tmp_path_factory) -> Path:
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("models") / "fresh"
    write_model(Pretrained(Discriminator(build_body(tiny_config.model)), tokenizer), folder)
    return folder


@pytest.fixture(scope="module")
def tuned(data, fresh, tmp_path_factory):
    """A function that fine-tunes a run with a head, once."""
    folder = tmp_path_factory.mktemp("runs")

    def make(head: str) -> Path:
        out = folder / head
        if not out.exists():
            keys = [f"data={data}", f"model={fresh}", f"out={out}", f"head={head}", *FAST]
            electra.finetune(load_finetune_config("choice", keys))
        return out

    return make


@pytest.fixture
def task(data):
    return build_task(load_finetune_config("choice", [f"data={data}"]))


def test_an_option_is_framed_with_the_context_as_the_first_text(task, tokenizer):
    features = task.features([Choice("the cat", ("sat", "ate soup"), 1)], tokenizer, 12, Notes(), training=True)
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    context, *options = (encoding.ids for encoding in tokenizer.encode(["the cat", "sat", "ate soup"]))
    assert [feature.ids for feature in features[:2]] == [[cls, *context, sep, *option, sep] for option in options]
    assert features[0].types == [0, 0, 0, 0, 1, 1]
    assert [(feature.target, feature.filler) for feature in features] == [
        (False, False), (True, False), (False, True), (False, True),
    ]  # fmt: skip


def test_the_context_is_shortened_before_the_option(task, tokenizer):
    notes = Notes()
    long = Choice("the cat sat on a mat", ("it was good", "soup"))
    first, second, *_ = task.features([long], tokenizer, 8, notes, training=False)
    context, option, other = (encoding.ids for encoding in tokenizer.encode([long.context, *long.options]))
    assert first.ids[1:-1] == [*context[-2:], tokenizer.sep_id, *option]
    assert second.ids[1:-1] == [*context[-4:], tokenizer.sep_id, *other]
    assert dict(notes.counts) == {"truncated contexts": 1}
    first, *_ = task.features([long], tokenizer, 5, notes, training=False)
    assert first.ids[1:-1] == [tokenizer.sep_id, *option[:2]]
    assert notes.counts["truncated options"] == 1


@pytest.mark.parametrize("padded", [1, 3])
def test_padding_does_not_change_the_loss(task, tiny_config, tokenizer, padded):
    torch.manual_seed(0)
    body = build_body(tiny_config.model).eval()
    head = task.head(body).eval()
    examples = [Choice("the cat", ("sat", "ate soup"), 1), Choice("a dog", ("ate", "sat", "cooked", "was good"), 2)]
    features = task.features(examples, tokenizer, 16, Notes(), training=True)
    batch = make_batch(task, features, task.group * (len(examples) + padded), 16, tokenizer.pad_id)
    with torch.no_grad():
        found = task.loss(head, body(batch["ids"], batch["attention"], batch["types"]), batch)
        expected = []
        for example in examples:
            pairs = [tokenizer.encode([example.context, option]) for option in example.options]
            scores = []
            for context, option in pairs:
                ids = [tokenizer.cls_id, *context.ids, tokenizer.sep_id, *option.ids, tokenizer.sep_id]
                types = [0] * (len(context.ids) + 2) + [1] * (len(option.ids) + 1)
                scores.append(head(body(torch.tensor([ids]), None, torch.tensor([types])))[0])
            expected.append(torch.nn.functional.cross_entropy(torch.stack(scores), torch.tensor(example.right)))
    torch.testing.assert_close(found, torch.stack(expected).mean())


@pytest.mark.parametrize("head", ["paper", "huggingface"])
def test_a_choice_is_learned_and_predicted(tuned, data, head):
    found = evaluate(tuned(head))
    assert found.metrics["accuracy"] > 0.9  # by chance 0.37
    assert "calibration.svg" in found.files
    (first, *_) = found.predictions
    right = json.loads((data / "dev.jsonl").read_text().splitlines()[0])
    assert first["option"] == right["options"][first["choice"]]
    assert len(first["probabilities"]) == len(right["options"])
    assert sum(first["probabilities"]) == pytest.approx(1)
    hidden = evaluate(tuned(head), split="test")
    assert hidden.metrics == {}
    assert [prediction["id"] for prediction in hidden.predictions] == [0, 1, 2, 3, 4]


def test_more_options_than_in_training_are_scored_too(tuned, tmp_path):
    options = [f"it was {end}" for end in (*ENDS, "good", "cat", "a")]
    new = write(tmp_path / "new.jsonl", [{"context": "the cat and", "options": options}])
    (prediction,) = predict(tuned("paper"), new)
    assert prediction["choice"] == 4
    assert len(prediction["probabilities"]) == 7


def test_dev_examples_may_have_more_options_than_training(data, fresh, tmp_path):
    options = [f"it was {end}" for end in (*ENDS, "good", "cat")]
    dev = write(tmp_path / "dev.jsonl", [{"context": "the cat", "options": options, "label": 4}, *rows(3, seed=5)])
    keys = [f"data={data}", f"dev_file={dev}", f"model={fresh}", f"out={tmp_path / 'run'}", *FAST, "epochs=0.1"]
    assert len(electra.finetune(load_finetune_config("choice", keys))["seeds"]) == 1


def test_json_lines_are_read_from_standard_input(tuned, monkeypatch):
    line = json.dumps({"context": "the cat and", "options": ["it was mat", "it was good"], "id": "x"})
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(line.encode() + b"\n")))
    (prediction,) = predict(tuned("paper"), "-")
    assert (prediction["id"], prediction["choice"], prediction["option"]) == ("x", 1, "it was good")


def test_a_stopped_run_resumes_to_the_same_model(data, fresh, tmp_path):
    class Stop(Exception):
        pass

    def stop(record: dict) -> None:
        if record.get("step") == 8:
            raise Stop

    def keys(name: str) -> list[str]:
        fixed = [f"data={data}", f"model={fresh}", f"out={tmp_path / name}", *FAST, "epochs=1"]
        return [*fixed, "checkpoint_every=4", "log_every=1"]

    straight = electra.finetune(load_finetune_config("choice", keys("straight")))
    with pytest.raises(Stop):
        electra.finetune(load_finetune_config("choice", keys("stopped")), [stop])
    resumed = electra.finetune(load_finetune_config("choice", keys("stopped")))
    assert resumed["median"] == straight["median"]
    weights = [(tmp_path / name / "model/model.safetensors").read_bytes() for name in ("straight", "stopped")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("head", ["paper", "huggingface"])
def test_the_export_has_the_logits_of_transformers(tuned, tokenizer, tmp_path, head):
    from transformers import ElectraForMultipleChoice

    electra.export(tuned(head), tmp_path / "hf")
    theirs = ElectraForMultipleChoice.from_pretrained(tmp_path / "hf").eval()
    ours = load_tuned(tuned(head))
    examples = [Choice("the cat and", ("it was good", "soup", "it was")), Choice("a", ("mat", "it", "good dog"))]
    features = ours.task.features(examples, tokenizer, 12, Notes(), training=False)
    batch = make_batch(ours.task, features, len(features), 12, tokenizer.pad_id)
    with torch.no_grad():
        network = ours.network.eval()
        found = network.head(network.encoder(batch["ids"], batch["attention"], batch["types"])).view(2, 3)
        names = {"input_ids": "ids", "attention_mask": "attention", "token_type_ids": "types"}
        expected = theirs(**{name: batch[part].view(2, 3, -1) for name, part in names.items()}).logits
    assert (found - expected).abs().max() < 1e-5
    exported = load_tuned(tmp_path / "hf")
    assert isinstance(exported.network.head, HuggingFaceChoiceHead)
    assert isinstance(ours.network.head, ChoiceHead if head == "paper" else HuggingFaceChoiceHead)


def test_a_model_of_transformers_predicts_and_is_scored(data, tokenizer, tmp_path):
    from transformers import ElectraConfig, ElectraForMultipleChoice

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 40}
    config = ElectraConfig(vocab_size=tokenizer.vocab_size, max_position_embeddings=16, **shape)
    theirs = ElectraForMultipleChoice(config).eval()
    theirs.save_pretrained(tmp_path / "theirs")
    tokenizer.save(tmp_path / "theirs")
    found = list(predict(tmp_path / "theirs", data / "dev.jsonl"))
    scored = evaluate(tmp_path / "theirs", [f"data={data / 'dev.jsonl'}"])
    assert scored.predictions == found
    truth = [json.loads(line) for line in (data / "dev.jsonl").read_text().splitlines()]
    hits = [prediction["choice"] == row["label"] for prediction, row in zip(found, truth, strict=True)]
    assert scored.metrics == {"accuracy": sum(hits) / len(hits)}
    row = truth[0]
    pairs = [tokenizer.encode([row["context"], option]) for option in row["options"]]
    scores = []
    for context, option in pairs:
        ids = [tokenizer.cls_id, *context.ids, tokenizer.sep_id, *option.ids, tokenizer.sep_id]
        types = [0] * (len(context.ids) + 2) + [1] * (len(option.ids) + 1)
        with torch.no_grad():
            inputs = {"input_ids": torch.tensor([[ids]]), "token_type_ids": torch.tensor([[types]])}
            scores.append(theirs(**inputs).logits[0, 0])
    assert found[0]["probabilities"] == pytest.approx(torch.stack(scores).softmax(0).tolist(), abs=1e-5)


def test_another_task_does_not_fit_the_head(tuned, data):
    with pytest.raises(TaskError, match=r"does not fit task squad-1\.1: it predicts PaperChoice"):
        evaluate(tuned("paper"), ["task=squad-1.1"])


def test_the_form_asks_for_one_option_per_line(tuned):
    model = load_tuned(tuned("paper"))
    assert [field.label for field in model.task.fields] == ["Context", "Options"]
    html = answer(model, ["the cat and", "it was mat\nit was good\n\nit was dog"])
    assert 'class="answer" role="status">it was good<' in html
    assert html.count('scope="row"') == 3
    with pytest.raises(TaskError, match="at least two options, one per line"):
        answer(model, ["the cat", "only one"])


def test_a_dry_run_shows_what_was_detected(data, fresh):
    result = CliRunner().invoke(app, ["finetune", "choice", f"data={data}", f"model={fresh}", "--dry-run"])
    assert result.exit_code == 0
    assert "# table.text=context table.pair=options table.label=label table.id=id" in result.output
    assert "# 2 to 4 options per example; labels count from 0" in result.output


def test_a_task_is_made_again_from_what_a_model_knows_of_it(task):
    known = json.loads(json.dumps(task.describe()))
    again = build_task(load_finetune_config("choice", ["data=nowhere.csv"]), known)
    assert (again.describe(), again.detected()) == (task.describe(), task.detected())
