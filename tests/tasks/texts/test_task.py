import pytest
import torch

from electra.model.bodies import build_body
from electra.tasks.base import Notes
from electra.tasks.texts.head import ClassificationHead, HuggingFaceClassificationHead
from electra.tasks.texts.task import TextExample, shorten


def bert_truncation(first, second, room):
    """The rule as BERT states it: while both are too long, the longer loses a token; of equals the second."""
    first, second = list(first), list(second)
    while len(first) + len(second) > room:
        (first if len(first) > len(second) else second).pop()
    return [first, second]


@pytest.mark.parametrize("sizes", [(5, 5), (9, 2), (2, 9), (0, 7), (4, 1)])
@pytest.mark.parametrize("room", [0, 3, 6, 20])
def test_the_longest_text_is_cut_first(sizes, room):
    pieces = [list(range(size)) for size in sizes]
    expected = bert_truncation(*pieces, room)
    assert shorten(pieces, room) == (sum(sizes) > room)
    assert pieces == expected


def test_texts_are_framed_and_numbered(task, tokenizer):
    pair = TextExample(("the cat", "sat on"), "1")
    (feature,) = task("qqp").features([pair], tokenizer, 16, Notes(), training=True)
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    first, second = (encoding.ids for encoding in tokenizer.encode(pair.texts))
    assert feature.ids == [cls, *first, sep, *second, sep]
    assert feature.types == [0] * 4 + [1] * 3
    assert feature.target == [1]


def test_what_is_too_long_is_cut_and_counted(task, tokenizer):
    notes = Notes()
    examples = [TextExample(("the cat sat on the mat",)), TextExample(("good",))]
    features = task("cola").features(examples, tokenizer, 5, notes, training=False)
    assert [len(feature.ids) for feature in features] == [5, 3]
    assert notes.counts == {"truncated inputs": 1}


def test_pairs_without_order_are_doubled_in_training_alone(task, tokenizer):
    pair = TextExample(("the cat", "it"), "1")
    mrpc = task("mrpc")
    one, other = mrpc.features([pair], tokenizer, 16, Notes(), training=True)
    assert (one.example, other.example) == (0, 0)
    assert len(one.ids) == len(other.ids)
    assert one.ids != other.ids
    assert len(mrpc.features([pair], tokenizer, 16, Notes(), training=False)) == 1
    assert len(task("mrpc", "double_unordered=false").features([pair], tokenizer, 16, Notes(), training=True)) == 1
    assert len(task("qqp").features([pair], tokenizer, 16, Notes(), training=True)) == 1


def test_the_head_is_the_papers_or_hugging_faces(task, tiny_config):
    body = build_body(tiny_config.model)
    assert isinstance(task("mnli", "head=paper").head(body), ClassificationHead)
    assert isinstance(task("mnli", "head=huggingface").head(body), HuggingFaceClassificationHead)


@pytest.mark.parametrize(("name", "label"), [("cola", "1"), ("sts-b", 2.5)])
def test_padding_rows_do_not_change_the_loss(task, tokenizer, tiny_config, name, label):
    chosen = task(name)
    examples = [TextExample(("the cat",) * (2 if name == "sts-b" else 1), label)] * 3
    features = chosen.features(examples, tokenizer, 16, Notes(), training=False)
    head = chosen.head(build_body(tiny_config.model)).eval()
    hidden = torch.randn(5, 16, tiny_config.model.hidden_size)
    few = chosen.batch(features, 3, 16) | {"weights": torch.ones(3), "attention": torch.ones(3, 16)}
    many = chosen.batch(features, 5, 16) | {"weights": torch.tensor([1.0, 1, 1, 0, 0]), "attention": torch.ones(5, 16)}
    assert chosen.loss(head, hidden, many).item() == pytest.approx(chosen.loss(head, hidden[:3], few).item())


def test_groups_are_scored_apart(task):
    examples = [TextExample(("a", "b"), "neutral", group=group) for group in ("matched", "matched", "mismatched")]
    predictions = [{"label": label} for label in ("neutral", "entailment", "neutral")]
    found = task("mnli").score(examples, predictions)
    assert (found["accuracy"], found["accuracy_mismatched"]) == (0.5, 1.0)
