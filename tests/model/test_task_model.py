"""Fine-tuned models on disk: `transformers` reads ours, we read theirs, with equal logits."""

import json

import pytest
import torch
from transformers import (
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    BertConfig,
    BertForMultipleChoice,
    BertForQuestionAnswering,
    BertForSequenceClassification,
    BertForTokenClassification,
    ElectraConfig,
    ElectraForQuestionAnswering,
    ElectraForSequenceClassification,
    ElectraForTokenClassification,
)

import electra
from electra.errors import CheckpointError
from electra.model.bodies import build_body
from electra.model.body import Body
from electra.model.networks import TaskNetwork
from electra.model.task_model import TaskModel, read_task_model, write_task_model
from electra.tasks.answering.head import HuggingFaceSpanHead, QuestionAnsweringHead
from electra.tasks.tagging.head import TaggingHead
from electra.tasks.texts.head import ClassificationHead, HuggingFaceClassificationHead

LABELS = ("no", "yes", "per haps")
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}
TASK = {"name": "mood", "columns": {"text": "review"}}


@pytest.fixture
def make(tiny_config, tokenizer):
    """Return a function that makes an untrained task model with perturbed weights."""

    def make(kind, labels=LABELS, problem=None) -> TaskModel:
        torch.manual_seed(3)
        shape = tiny_config.model
        head = kind(shape, len(labels)) if labels else kind(shape)
        network = TaskNetwork(build_body(shape), head, labels, problem).eval()
        for parameter in network.parameters():
            parameter.data.add_(torch.randn_like(parameter) * 0.1)
        return TaskModel(network, tokenizer, TASK)

    return make


def batch(vocab_size: int) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    ids, types = torch.randint(vocab_size, (3, 14), generator=draw), torch.randint(2, (3, 14), generator=draw)
    return {
        "input_ids": ids,
        "attention_mask": (torch.arange(14) < torch.tensor([[14], [9], [1]])).long(),
        "token_type_ids": types,
    }


@torch.no_grad()
def assert_equal_logits(ours: TaskNetwork, theirs) -> None:
    inputs = batch(ours.encoder.config.vocab_size)
    found = ours.head(ours.encoder(*inputs.values()))
    output = theirs.eval()(**inputs)
    if isinstance(ours.head, HuggingFaceSpanHead):
        expected = torch.stack([output.start_logits, output.end_logits], dim=-1)
    else:
        expected = output.logits
    real = inputs["attention_mask"].bool() if found.dim() == 3 else slice(None)
    torch.testing.assert_close(found[real], expected[real], **TOLERANCE)


@pytest.mark.parametrize(
    ("kind", "labels", "problem", "auto"),
    [
        (HuggingFaceClassificationHead, LABELS, "single_label_classification", AutoModelForSequenceClassification),
        (HuggingFaceClassificationHead, LABELS, "multi_label_classification", AutoModelForSequenceClassification),
        (HuggingFaceClassificationHead, ("score",), "regression", AutoModelForSequenceClassification),
        (ClassificationHead, LABELS, "single_label_classification", AutoModelForSequenceClassification),
        (ClassificationHead, ("score",), "regression", AutoModelForSequenceClassification),
        (TaggingHead, ("O", "B-NP", "I-NP"), None, AutoModelForTokenClassification),
        (HuggingFaceSpanHead, (), None, AutoModelForQuestionAnswering),
    ],
)
def test_an_export_loads_in_transformers_with_equal_logits(make, kind, labels, problem, auto, tmp_path):
    model = make(kind, labels, problem)
    write_task_model(model, tmp_path / "run" / "model")
    electra.export(tmp_path / "run", tmp_path / "hf")
    theirs, report = auto.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not any(report.values()), report
    assert_equal_logits(model.network, theirs)
    assert theirs.config.problem_type == problem
    if labels:
        assert theirs.config.id2label == dict(enumerate(labels))
        assert theirs.config.label2id == {label: number for number, label in enumerate(labels)}


@pytest.mark.parametrize("kind", [ClassificationHead, HuggingFaceClassificationHead, TaggingHead])
def test_a_task_model_survives_a_round_trip(make, kind, tmp_path):
    problem = None if kind is TaggingHead else "multi_label_classification"
    model = make(kind, LABELS, problem)
    write_task_model(model, tmp_path)
    again = read_task_model(tmp_path)
    assert type(again.network.head) is kind
    assert (again.network.labels, again.network.problem, again.task) == (LABELS, problem, TASK)
    for (name, one), (_, other) in zip(model.network.named_parameters(), again.network.named_parameters(), strict=True):
        assert torch.equal(one, other), name


@pytest.mark.parametrize("kind", [QuestionAnsweringHead, HuggingFaceSpanHead])
def test_span_heads_survive_a_round_trip(make, kind, tmp_path):
    model = make(kind, ())
    write_task_model(model, tmp_path)
    again = read_task_model(tmp_path).network
    assert type(again.head) is kind
    assert again.labels == ()
    for one, other in zip(model.network.parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other)


def save_theirs(theirs, tokenizer, folder):
    torch.manual_seed(1)
    for parameter in theirs.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    theirs.save_pretrained(folder)
    tokenizer.save(folder)
    return theirs.eval()


def their_shape(tokenizer, **more) -> dict:
    return {
        "vocab_size": tokenizer.vocab_size, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "intermediate_size": 40, "max_position_embeddings": 16, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        (ElectraForSequenceClassification, HuggingFaceClassificationHead),
        (ElectraForTokenClassification, TaggingHead),
        (ElectraForQuestionAnswering, HuggingFaceSpanHead),
    ],
)
def test_a_model_of_transformers_is_read_with_its_head(kind, head, tokenizer, tmp_path):
    labels = {} if head is HuggingFaceSpanHead else {"id2label": {0: "no", 1: "yes", 2: "maybe"}}
    theirs = save_theirs(kind(ElectraConfig(**their_shape(tokenizer, **labels))), tokenizer, tmp_path)
    model = read_task_model(tmp_path)
    assert type(model.network.head) is head
    assert model.network.labels == tuple(labels.get("id2label", {}).values())
    assert model.task == {}
    assert_equal_logits(model.network, theirs)


def test_unnamed_labels_get_the_names_that_transformers_gives_them(tokenizer, tmp_path):
    save_theirs(ElectraForSequenceClassification(ElectraConfig(**their_shape(tokenizer))), tokenizer, tmp_path)
    network = read_task_model(tmp_path).network
    assert network.labels == ("LABEL_0", "LABEL_1")
    assert network.problem == "single_label_classification"


@pytest.mark.parametrize("kind", [BertForTokenClassification, BertForQuestionAnswering])
def test_a_bert_is_read_with_its_head(kind, tokenizer, tmp_path):
    labels = {"num_labels": 5} if kind is BertForTokenClassification else {}
    theirs = save_theirs(kind(BertConfig(**their_shape(tokenizer, **labels))), tokenizer, tmp_path)
    assert_equal_logits(read_task_model(tmp_path).network, theirs)


@pytest.mark.parametrize(
    "build",
    [
        lambda shape: BertForSequenceClassification(BertConfig(**shape)),  # has a pooler, unlike our heads
        lambda shape: BertForMultipleChoice(BertConfig(**shape)),
    ],
)
def test_an_unknown_head_is_dropped_and_the_encoder_is_loaded(build, tokenizer, tmp_path):
    save_theirs(build(their_shape(tokenizer)), tokenizer, tmp_path)
    assert isinstance(electra.load(tmp_path).network, Body)
    with pytest.raises(CheckpointError, match=r"has no supported task head; fine-tune it with: electra finetune"):
        read_task_model(tmp_path)


def test_a_pretrained_model_has_no_task_head(tiny_folder):
    with pytest.raises(CheckpointError, match="has no supported task head"):
        read_task_model(tiny_folder)


def test_a_fine_tuned_model_still_encodes(make, tmp_path):
    write_task_model(make(ClassificationHead), tmp_path)
    assert electra.load(tmp_path).encode(["the cat sat"]).shape == (1, 128)


def test_the_papers_question_answering_head_is_not_exported(make, tmp_path):
    write_task_model(make(QuestionAnsweringHead, ()), tmp_path / "run")
    with pytest.raises(CheckpointError, match="fine-tune with head=huggingface to export"):
        electra.export(tmp_path / "run", tmp_path / "hf")
    assert not (tmp_path / "hf").exists()


def test_more_labels_than_fit_the_hugging_face_head_are_not_exported(make, tmp_path):
    write_task_model(make(ClassificationHead, [f"label {number}" for number in range(65)]), tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"with 65 labels; fine-tune with head=huggingface"):
        electra.export(tmp_path / "run", tmp_path / "hf")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"id2label": {"0": "no", "1": "yes"}},
            r"classifier\.out_proj\.weight in .* has shape \(3, 128\), its config\.json asks for \(2, 128\)",
        ),
        ({"id2label": {"1": "no", "2": "yes", "3": "maybe"}}, "does not number its labels from 0 to 2"),
        ({"id2label": {"0": "no", "1": "yes", "2": "no"}}, "has two labels of the same name in id2label: no, yes, no"),
        ({"problem_type": "regression"}, "is a regression with 3 outputs; only one is supported"),
        ({"problem_type": "ranking"}, "has problem_type 'ranking'; supported: single_label"),
    ],
)
def test_labels_that_do_not_fit_the_head_are_refused(make, changes, message, tmp_path):
    write_task_model(make(HuggingFaceClassificationHead, LABELS, "single_label_classification"), tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    (tmp_path / "checksums.json").unlink()
    with pytest.raises(CheckpointError, match=message):
        read_task_model(tmp_path)


def test_a_task_description_that_is_not_json_is_refused(make, tmp_path):
    write_task_model(make(TaggingHead), tmp_path)
    (tmp_path / "task.json").write_text("{")
    (tmp_path / "checksums.json").unlink()
    with pytest.raises(CheckpointError, match=r"task\.json is not the description of a task"):
        read_task_model(tmp_path)


@pytest.mark.parametrize("head", [TaggingHead, ClassificationHead])
def test_an_export_in_bf16_holds_rounded_weights(make, head, tmp_path):
    write_task_model(make(head), tmp_path / "run")
    electra.export(tmp_path / "run", tmp_path / "hf", "bf16")
    assert json.loads((tmp_path / "hf" / "config.json").read_text())["dtype"] == "bfloat16"
    assert "rounded to bfloat16" in (tmp_path / "hf" / "README.md").read_text()


def test_an_export_keeps_the_description_and_has_a_card(make, tmp_path):
    write_task_model(make(TaggingHead), tmp_path / "run")
    electra.export(tmp_path / "run", tmp_path / "hf")
    assert read_task_model(tmp_path / "hf").task == TASK
    card = (tmp_path / "hf" / "README.md").read_text()
    assert "ElectraForTokenClassification" in card
    assert "replaced-token-detection" not in card
