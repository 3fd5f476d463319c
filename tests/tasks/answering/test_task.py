import json

import pytest
import torch
import torch.nn.functional as F
from transformers import ElectraConfig, ElectraForQuestionAnswering

from electra.config.load import load_finetune_config
from electra.errors import TaskError
from electra.model.bodies import build_body
from electra.model.body import Body
from electra.model.huggingface import read_network
from electra.tasks.answering.files import DatasetAnswering
from electra.tasks.answering.questions import Answer, Question
from electra.tasks.base import Notes

LENGTH = 64


def make_task(folder, name="squad-2.0", head="paper", known=None, keys=()) -> DatasetAnswering:
    config = load_finetune_config("squad", [f"data={folder}", f"head={head}", *keys])
    return DatasetAnswering(name, config, known or {})


def batch_of(task, features, rows):
    weights = torch.tensor([1.0] * len(features) + [0.0] * (rows - len(features)))
    return task.batch(features, rows, LENGTH) | {"weights": weights}


def prepared(task, tokenizer, training=True):
    examples = task.read("train", Notes())
    features = task.features(examples, tokenizer, LENGTH, Notes(), training)
    return examples, features


def plain_loss(head, hidden, window, kind, unanswerable) -> torch.Tensor:
    """The loss of one window token by token, by the paper's formulas or as in `transformers`, over all tokens."""
    outside = torch.full((LENGTH,), -1000.0)
    outside[[0, *range(window.begin, len(window.ids))]] = 0
    first, last = window.target
    if kind == "huggingface":
        starts, ends = head.linear(hidden).unbind(-1)
        outside = torch.zeros(LENGTH)
    else:
        starts = head.start(hidden)[:, 0]
        ends = torch.stack(
            [head.end(F.gelu(head.end_hidden(torch.cat([hidden[first], token]))))[0] for token in hidden]
        )
    start_loss = -(starts + outside).log_softmax(0)[first]
    end_loss = -(ends + outside).log_softmax(0)[last]
    loss = (start_loss + end_loss) / 2
    if unanswerable and kind == "paper":
        expected = ((starts + outside).softmax(0)[:, None] * hidden).sum(0)
        logit = head.answer(F.gelu(head.answer_hidden(torch.cat([hidden[0], expected]))))[0]
        impossible = torch.sigmoid(logit)
        loss = loss - 0.5 * torch.log(impossible if window.target == (0, 0) else 1 - impossible)
    return loss


@pytest.mark.parametrize("kind", ["paper", "huggingface"])
@pytest.mark.parametrize("name", ["squad-1.1", "squad-2.0"])
def test_the_loss_is_that_of_the_paper(squad_folder, tiny_config, tokenizer, name, kind):
    """Padding counts for nothing; answerability is learnt in 2.0 alone, by the paper's head alone."""
    for path in squad_folder.iterdir():
        path.rename(path.with_name(path.name.replace("v2.0", name.replace("squad-", "v"))))
    task = make_task(squad_folder, name, kind)
    _, features = prepared(task, tokenizer)
    torch.manual_seed(0)
    head = task.head(build_body(tiny_config.model))
    hidden = torch.randn(5, LENGTH, tiny_config.model.hidden_size)
    expected = [
        plain_loss(head, states, window, kind, unanswerable=name == "squad-2.0")
        for states, window in zip(hidden[:3], features, strict=True)
    ]
    loss = task.loss(head, hidden, batch_of(task, features, 5))
    torch.testing.assert_close(loss, torch.stack(expected).mean(), rtol=1e-4, atol=1e-5)


def test_a_window_that_lacks_the_answer_counts_as_unanswerable(squad_folder, tiny_config, tokenizer):
    task = make_task(squad_folder)
    examples = task.read("train", Notes())
    features = task.features(examples[:1], tokenizer, 16, Notes(), True)
    assert next(window.target == (0, 0) for window in features) is False
    assert [window.target == (0, 0) for window in features][-1] is True
    head = task.head(build_body(tiny_config.model))
    with torch.no_grad():
        for parameter in head.parameters():
            parameter.zero_()
        head.answer.bias.fill_(9.0)  # sure that there is no answer
    hidden = torch.zeros(1, LENGTH, tiny_config.model.hidden_size)
    with_answer, without = (
        task.loss(head, hidden, task.batch([window], 1, LENGTH) | {"weights": torch.ones(1)})
        for window in (features[0], features[-1])
    )
    assert with_answer - without > 4


def test_logits_are_those_of_transformers(tiny_model, tmp_path, tokenizer):
    config = ElectraConfig(
        vocab_size=tokenizer.vocab_size, embedding_size=24, hidden_size=24, num_hidden_layers=2,
        num_attention_heads=2, intermediate_size=48, max_position_embeddings=LENGTH,
    )  # fmt: skip
    torch.manual_seed(1)
    theirs = ElectraForQuestionAnswering(config).eval()
    theirs.save_pretrained(tmp_path)
    ours = read_network(tmp_path)
    task = make_task(tmp_path, head="huggingface")
    encoder = ours if isinstance(ours, Body) else ours.encoder
    head = task.head(encoder)
    head.linear.load_state_dict(theirs.qa_outputs.state_dict())
    ids = torch.randint(5, tokenizer.vocab_size, (2, 20))
    with torch.no_grad():
        start, end = head(encoder.eval()(ids, torch.ones_like(ids))).unbind(-1)
        expected = theirs(ids)
    torch.testing.assert_close(start, expected.start_logits, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(end, expected.end_logits, rtol=1e-4, atol=1e-5)


def sure_outputs(features, odds):
    """What a model would give that knows each window's target."""
    return [
        {
            "first": torch.tensor([window.target[0], window.begin]).numpy(),
            "last": torch.tensor([window.target[1], window.begin]).numpy(),
            "score": torch.tensor([-0.1, -3.0] if window.target[0] else [-float("inf")] * 2).numpy(),
            "null_odds": torch.tensor(odds[window.example]).numpy(),
        }
        for window in features
    ]


def test_predictions_name_the_answer_or_say_that_there_is_none(squad_folder, tokenizer):
    task = make_task(squad_folder)
    examples, features = prepared(task, tokenizer, training=False)
    first, second, third = task.predictions(examples, features, sure_outputs(features, [-4.0, -2.0, 5.0]))
    assert (first["id"], first["text"], first["null_odds"]) == ("a", "The chef", -4.0)
    assert first["best"][1]["text"] == "The"
    assert (second["text"], second["best"][0]["text"]) == ("", "the cat")  # above the original's threshold of -2.75
    assert (third["text"], third["best"]) == ("", [])
    scores = task.score(examples, [first, second, third])
    assert scores["exact"] == pytest.approx(2 / 3)
    assert scores[task.metric] == scores["best_exact"] == 1.0


def test_without_unanswerable_questions_there_are_no_odds(squad_folder, tokenizer):
    for path in squad_folder.iterdir():
        path.rename(path.with_name(path.name.replace("v2.0", "v1.1")))
    task = make_task(squad_folder, "squad-1.1")
    examples, features = prepared(task, tokenizer, training=False)
    predictions = task.predictions(examples, features, sure_outputs(features, [9.0] * 3))
    assert [prediction["text"] for prediction in predictions] == ["The chef", "the cat", ""]
    assert "null_odds" not in predictions[0]
    assert task.score(examples[:2], predictions[:2]) == {"exact": 1.0, "f1": 1.0}


def test_the_best_spans_of_a_batch_are_kept_small(squad_folder, tiny_config, tokenizer):
    task = make_task(squad_folder)
    _, features = prepared(task, tokenizer)
    hidden = torch.randn(4, LENGTH, tiny_config.model.hidden_size)
    found = task.outputs(task.head(build_body(tiny_config.model)), hidden, batch_of(task, features, 4))
    assert {name: tuple(values.shape) for name, values in found.items()} == {
        "first": (4, 20),
        "last": (4, 20),
        "score": (4, 20),
        "null_odds": (4,),
    }
    window = features[0]
    assert set(found["first"][0].tolist()) <= set(window.starts)
    assert bool((found["last"][0] < window.end).all())


def test_questions_without_answers_cannot_be_scored(squad_folder):
    task = make_task(squad_folder)
    with pytest.raises(TaskError, match="question 7 has no answers"):
        task.score([Question("7", "Who?", "A cat.")], [{"id": "7", "text": "", "null_odds": 0.0, "best": []}])


def test_a_missing_file_is_named(squad_folder):
    with pytest.raises(TaskError, match=r"no test-v2\.0\.json or test\.json in .*found dev-v2\.0\.json, train-v2\.0"):
        make_task(squad_folder).read("test", Notes())


def test_a_dataset_of_the_hub_is_read_by_its_name_or_from_its_files(squad_folder, tmp_path, monkeypatch):
    import datasets

    record = {"id": "1", "context": "A cat.", "question": "Who?", "answers": {"text": ["cat"], "answer_start": [2]}}
    asked = []

    def load_dataset(name, config, split, streaming):
        asked.append((name, config, split))
        return [record]

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    [question] = make_task("someone/squad").read("dev", Notes())
    assert (question.id, question.answers) == ("1", (Answer("cat", 2),))
    assert asked == [("someone/squad", "squad_v2", "validation")]
    named = make_task("someone/squad", keys=[f"dev_file={squad_folder / 'dev-v2.0.json'}"])
    assert len(named.read("dev", Notes())) == 3
    datasets.Dataset.from_list([record]).to_parquet(tmp_path / "validation-00000-of-00001.parquet")
    assert make_task(tmp_path).read("dev", Notes()) == [question]


def test_questions_to_answer_come_from_either_kind_of_file(squad_folder, tmp_path):
    task = make_task(squad_folder)
    assert [question.id for question in task.inputs(str(squad_folder / "dev-v2.0.json"), Notes())] == ["a", "b", "c"]
    (tmp_path / "questions.jsonl").write_text('{"question": "Who?", "context": "A cat."}\n')
    assert next(task.inputs(str(tmp_path / "questions.jsonl"), Notes())).context == "A cat."


def test_the_threshold_that_is_found_on_dev_decides_later(squad_folder, tokenizer):
    task = make_task(squad_folder)
    examples, features = prepared(task, tokenizer, training=False)
    outputs = sure_outputs(features, [-4.0, -2.0, 5.0])
    known = task.calibrate(examples, task.predictions(examples, features, outputs))
    assert known == {"null_threshold": -1.0}  # towards the first that is not answered
    again = make_task(squad_folder, known=known)
    assert [guess["text"] for guess in again.predictions(examples, features, outputs)] == ["The chef", "the cat", ""]


def test_predictions_are_given_as_the_official_scorers_take_them(squad_folder, tokenizer):
    task = make_task(squad_folder)
    examples, features = prepared(task, tokenizer, training=False)
    predictions = task.predictions(examples, features, sure_outputs(features, [-4.0, -2.0, 5.0]))
    files = {name: json.loads(content) for name, content in task.files(examples, predictions).items()}
    assert files["predictions.json"] == {"a": "The chef", "b": "", "c": ""}
    assert files["na_prob.json"] == pytest.approx({"a": 0.0180, "b": 0.1192, "c": 0.9933}, abs=1e-4)  # at most 1
    assert files["nbest_predictions.json"]["b"][0]["text"] == "the cat"


def test_a_question_is_labeled_when_its_answers_are_known(squad_folder):
    task = make_task(squad_folder)
    assert [task.is_labeled(question) for question in task.read("dev", Notes())] == [True, True, True]
    assert not task.is_labeled(Question("1", "Who?", "A cat."))


def test_unanswerable_questions_in_a_task_without_them_are_noted(squad_folder):
    notes = Notes()
    task = make_task(squad_folder, "squad-1.1")
    (squad_folder / "dev-v2.0.json").rename(squad_folder / "dev.json")
    assert len(task.read("dev", notes)) == 3
    assert notes.counts == {"questions without an answer, which the model cannot predict": 1}


@pytest.mark.gpu
@pytest.mark.parametrize("kind", ["paper", "huggingface"])
def test_half_precision_changes_little(squad_folder, tiny_config, tokenizer, kind):
    task = make_task(squad_folder, head=kind)
    _, features = prepared(task, tokenizer)
    torch.manual_seed(0)
    head = task.head(build_body(tiny_config.model)).cuda()
    hidden = torch.randn(3, LENGTH, tiny_config.model.hidden_size, device="cuda")
    batch = {name: part.cuda() for name, part in batch_of(task, features, 3).items()}
    exact = task.loss(head, hidden, batch)
    with torch.autocast("cuda", torch.bfloat16):
        rounded = task.loss(head, hidden, batch)
        found = task.outputs(head, hidden, batch)
    assert rounded.dtype == found["score"].dtype == torch.float32
    torch.testing.assert_close(rounded, exact, rtol=0.02, atol=0.02)
