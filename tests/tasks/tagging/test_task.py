import numpy as np
import pytest
import torch

from electra.config.tasks import TaggingConfig
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.errors import TaskError
from electra.model.bodies import build_body
from electra.tasks.base import Notes
from electra.tasks.batches import make_batch
from electra.tasks.tagging.task import Sentence, TaggingTask, learn_tags

LABELS = ("O", "B-NP", "I-NP", "B-VP")


class Given(TaggingTask):
    """Tagging without files."""

    name = "given"

    def read(self, split, notes):
        return []

    def inputs(self, source, notes):
        return iter(())


def tagging(labels=LABELS, plain=False, **settings) -> Given:
    return Given(TaggingConfig(**settings), {"labels": labels}, plain)


def sentence(text: str, tags: str | None = None) -> Sentence:
    return Sentence(tuple(text.split()), tuple(tags.split()) if tags else None)


def predict(task, examples, features, tags) -> list:
    """Give predictions for a network that says `tags`, by numbers, at the first pieces and nonsense elsewhere."""
    outputs = []
    for feature, numbers in zip(features, tags, strict=True):
        found = np.full(len(feature.ids), 3)
        found[list(feature.starts)] = numbers[: len(feature.starts)]
        outputs.append({"tags": found, "probabilities": np.full(len(feature.ids), 0.5)})
    return task.predictions(examples, features, outputs)


def test_the_tag_of_a_word_is_at_its_first_piece(tokenizer):
    example = sentence("the cats ate", "B-NP I-NP B-VP")  # cats is cat, ##s
    (feature,) = tagging().features([example], tokenizer, 16, Notes(), training=True)
    assert [tokenizer.token(number) for number in feature.ids] == ["[CLS]", "the", "cat", "##s", "ate", "[SEP]"]
    assert feature.starts == (1, 2, 4)
    batch = make_batch(tagging(), [feature], 2, 16, tokenizer.pad_id)
    assert batch["tags"][0, [1, 2, 4]].tolist() == [1, 2, 3]
    assert batch["tag_weights"].sum() == 3
    assert batch["tag_weights"][0].nonzero().flatten().tolist() == [1, 2, 4]


def test_a_tagger_of_others_that_marks_ends_is_scored_in_its_own_scheme():
    task = tagging(("O", "B-NP", "E-NP", "S-NP"))
    gold = sentence("a cat ate soup", "B-NP I-NP O B-NP")
    right = {"tags": ["B-NP", "E-NP", "O", "S-NP"]}
    assert task.score([gold], [right]) == {"precision": 1.0, "recall": 1.0, "f1": 1.0, "accuracy": 1.0}


def test_where_a_sentence_stands_is_no_part_of_what_it_holds():
    assert repr(Sentence(("a",), ("O",), "here line 1")) == repr(Sentence(("a",), ("O",), "moved/here line 1"))


def test_words_keep_their_own_pieces_whatever_they_are(tokenizer):
    example = Sentence(("the", "\u200b", "a cat", "[SEP]"), ("O", "O", "O", "O"))
    notes = Notes()
    (feature,) = tagging().features([example], tokenizer, 16, notes, training=True)
    assert feature.ids[2] == tokenizer.unk_id  # a word of which cleaning leaves nothing
    assert feature.starts == (1, 2, 3, 5)
    assert feature.ids.count(tokenizer.sep_id) == 1
    assert notes.counts == {"words without any piece, read as unknown": 1}


@pytest.mark.parametrize(("words", "seen"), [(10, 10), (14, 14), (15, 14), (30, 14)])
def test_as_many_words_are_seen_as_there_is_room_for(tokenizer, words, seen):
    """The original keeps 3 of 10 words of one piece at length 16, and none of 15."""
    notes = Notes()
    example = sentence("cat " * words, "O " * words)
    (feature,) = tagging().features([example], tokenizer, 16, notes, training=True)
    assert len(feature.starts) == len(feature.target) == seen
    assert len(feature.ids) == min(words + 2, 16)
    expected = {"truncated sentences": 1, "truncated words": words - seen} if words > seen else {}
    assert notes.counts == expected


def test_truncated_words_count_against_the_f1_as_outside(tokenizer):
    task = tagging()
    examples = [sentence("the cat ate the dog", "B-NP I-NP B-VP B-NP I-NP")]
    features = task.features(examples, tokenizer, 5, Notes(), training=False)
    predictions = predict(task, examples, features, [[1, 2, 3]])
    assert predictions[0]["tags"] == ["B-NP", "I-NP", "B-VP", "O", "O"]
    assert predictions[0]["probabilities"] == [0.5, 0.5, 0.5, None, None]
    scores = task.score(examples, predictions)
    assert scores == pytest.approx({"f1": 0.8, "precision": 1.0, "recall": 2 / 3, "accuracy": 0.6})


def test_predictions_name_the_spans(tokenizer):
    task = tagging()
    examples = [sentence("the cat ate")]
    features = task.features(examples, tokenizer, 16, Notes(), training=False)
    (prediction,) = predict(task, examples, features, [[1, 2, 3]])
    assert prediction["spans"] == [
        {"type": "NP", "text": "the cat", "start": 0, "end": 1},
        {"type": "VP", "text": "ate", "start": 2, "end": 2},
    ]


def test_a_tag_that_training_did_not_have_is_noted_and_cannot_be_right(tokenizer):
    task, notes = tagging(), Notes()
    examples = [sentence("the cat", "B-NP B-PP")]
    features = task.features(examples, tokenizer, 16, notes, training=False)
    assert features[0].target == [1, None]
    assert notes.counts == {"words whose tag is not in the training data": 1}
    assert make_batch(task, features, 1, 16, tokenizer.pad_id)["tag_weights"].sum() == 1
    assert task.score(examples, predict(task, examples, features, [[1, 0]]))["recall"] == 0.5


def test_a_tag_that_marks_no_span_is_refused_with_its_place(tokenizer):
    odd = Sentence(("the", "cat"), ("B-NP", "NP"), "dev.txt line 3")
    with pytest.raises(TaskError, match=r"dev\.txt line 3: tag 'NP' does not mark a span"):
        tagging().features([odd], tokenizer, 16, Notes(), training=False)


def test_one_tag_for_all_words_is_told(tokenizer):
    task, examples = tagging(), [sentence("the cat", "B-NP I-NP"), sentence("ate", "B-VP")]
    features = task.features(examples, tokenizer, 16, Notes(), training=False)
    assert task.is_constant(examples, predict(task, examples, features, [[1, 1], [1]]))
    assert not task.is_constant(examples, predict(task, examples, features, [[1, 1], [0]]))
    assert not task.is_constant(examples[1:], predict(task, examples[1:], features[1:], [[1]]))


def test_plain_tags_are_scored_by_accuracy(tokenizer):
    task = tagging(("DT", "NN"))
    examples = [sentence("the cat the", "DT NN DT")]
    features = task.features(examples, tokenizer, 16, Notes(), training=False)
    predictions = predict(task, examples, features, [[0, 1, 1]])
    assert task.metric == "accuracy"
    assert "spans" not in predictions[0]
    assert task.score(examples, predictions) == pytest.approx({"accuracy": 2 / 3})


def test_the_loss_is_the_mean_over_words_and_no_other_token(tokenizer, tiny_config):
    task = tagging()
    torch.manual_seed(0)
    head = task.head(build_body(tiny_config.model))
    examples = [sentence("the cats", "B-NP I-NP"), sentence("ate", "B-VP")]
    features = task.features(examples, tokenizer, 16, Notes(), training=True)
    batch = make_batch(task, features, 4, 16, tokenizer.pad_id)
    hidden = torch.randn(4, batch["ids"].size(1), tiny_config.model.hidden_size)
    logits = head(hidden)
    words = [(0, 1, 1), (0, 2, 2), (1, 1, 3)]
    expected = -sum(logits[row, place].log_softmax(-1)[tag] for row, place, tag in words) / 3
    torch.testing.assert_close(task.loss(head, hidden, batch), expected)


def test_labels_are_those_of_the_networks_scheme():
    examples = [sentence("a b c", "I-NP I-NP I-VP"), sentence("d", "O")]
    learnt = learn_tags(examples, TaggingConfig())
    assert learnt == {"labels": ["O", "B-NP", "B-VP", "I-NP"], "scheme": "IOB1"}
    assert learn_tags(examples, TaggingConfig(scheme="bioes"))["labels"] == ["O", "B-NP", "E-NP", "S-VP"]
    assert learn_tags(examples, TaggingConfig(), plain=True) == {"labels": ["O", "I-NP", "I-VP"], "scheme": None}


def test_the_scheme_of_the_file_and_that_of_the_network_are_shown():
    shown = Given(TaggingConfig(scheme="bioes"), {"labels": ["O", "S-NP"], "scheme": "IOB1"}).detected()
    assert shown == ["2 tags of spans, written as IOB1, predicted as BIOES: O, S-NP"]


def test_cased_tokenizers_see_the_case_of_words():
    cased = wordpiece([*SPECIAL_TOKENS, "Cat", "cat"], lowercase=False)
    (feature,) = tagging().features([sentence("Cat cat")], cased, 16, Notes(), training=False)
    assert feature.ids[1:3] == [5, 6]
