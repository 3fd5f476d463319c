from itertools import pairwise

import pytest
import tokenizers
from tokenizers import models, pre_tokenizers

from electra.data.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer, wordpiece
from electra.errors import TaskError
from electra.tasks.answering.questions import Answer, Question
from electra.tasks.answering.windows import cut, cut_windows, max_context
from electra.tasks.base import Notes


def windows_of(tokenizer, context, *, question="who", answers=None, length=16, training=False, notes=None):
    asked = Question("1", question, context, answers)
    return cut_windows([asked], tokenizer, length, notes or Notes(), training)


def words(count: int) -> str:
    return " ".join(["cat"] * count)


@pytest.mark.parametrize(
    ("asked", "count", "stretches", "owned"),
    [(10, 700, [(0, 498), (128, 626), (256, 699)], [314, 128, 258]), (80, 500, [(0, 444), (128, 499)], [287, 213])],
)
def test_windows_are_those_of_the_original(tokenizer, asked, count, stretches, owned):
    found = windows_of(tokenizer, words(count), question=words(asked), length=512)
    length = [len(window.ids) - window.begin - 1 for window in found]
    assert [
        (window.skipped, window.skipped + size - 1) for window, size in zip(found, length, strict=True)
    ] == stretches
    assert [len(window.starts) for window in found] == owned


def test_each_token_belongs_to_the_window_with_most_context():
    parts = max_context([range(0, 5), range(3, 8), range(6, 11)])
    assert parts == [range(0, 4), range(4, 7), range(7, 11)]


def test_a_longer_window_counts_a_little_more():
    assert max_context([range(0, 300), range(200, 350)]) == [range(0, 251), range(251, 350)]


@pytest.mark.parametrize("room", [1, 2, 9, 100, 129, 300])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 299, 300, 301, 700])
def test_parts_of_windows_give_every_token_once(count, room):
    stretches = list(cut(count, room))
    assert all(len(stretch) <= room for stretch in stretches)
    parts = max_context(stretches)
    assert [token for part in parts for token in part] == list(range(count))
    assert all(
        part.start >= stretch.start and part.stop <= stretch.stop
        for part, stretch in zip(parts, stretches, strict=True)
    )


@pytest.mark.parametrize("room", [2, 9, 60, 115, 255])
def test_windows_of_short_models_overlap_by_half(room):
    stretches = list(cut(700, room))
    assert all(one.stop - other.start >= room / 2 for one, other in pairwise(stretches))


def test_a_window_frames_the_question_and_a_stretch_of_the_context(tokenizer):
    first, second = windows_of(tokenizer, "the cat sat on the mat", question="a cat", length=10)
    cls, sep = tokenizer.cls_id, tokenizer.sep_id
    tokens = {word: tokenizer.encode([word])[0].ids[0] for word in "a the cat sat on mat".split()}
    stretch = [tokens[word] for word in "the cat sat on the".split()]
    assert first.ids == [cls, tokens["a"], tokens["cat"], sep, *stretch, sep]
    assert first.types == [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    assert (first.begin, first.end, first.skipped, first.starts) == (4, 9, 0, range(4, 8))
    assert (second.skipped, second.starts) == (2, range(6, 8))


def test_spans_are_read_off_the_context_as_it_stands(tokenizer):
    [window] = windows_of(tokenizer, "«The  CHEF's» (Café)", length=64)
    spelled = [tokenizer.token(number) for number in window.ids]
    assert window.answer(spelled.index("the"), spelled.index("chef")) == ("The  CHEF", 1)
    assert window.answer(spelled.index("c"), spelled.index("c") + 3) == ("Café", 15)


@pytest.mark.parametrize(
    ("answer", "context", "expected"),
    [
        ("Steve Smith", "Steve Smith's", "Steve Smith"),
        ("1895", "(1895-1943).", "1895"),
        ("Cafe", "Café's", "Café"),
        ("new york", "New  York,", "New  York"),
    ],
)
def test_an_answer_is_the_exact_text_of_its_tokens(answer, context, expected):
    """What the original has to search for, in the cases that it is known to find."""
    pieces = "who steve smith ' s ( 1895 - 1943 ) . cafe new york ,".split()
    [window] = windows_of(wordpiece([*SPECIAL_TOKENS, *pieces]), context)
    tokens = [pieces.index(word) + len(SPECIAL_TOKENS) for word in answer.lower().split()]
    first = window.ids.index(tokens[0])
    assert window.ids[first : first + len(tokens)] == tokens
    assert window.answer(first, first + len(tokens) - 1)[0] == expected


def test_an_answer_takes_its_own_tokens_of_a_longer_word():
    pieces = "who the leader was john smith ( 1895 - 1943 ) .".split()
    context = "The leader was John Smith (1895-1943)."
    [window] = windows_of(wordpiece([*SPECIAL_TOKENS, *pieces]), context, answers=(Answer("1895", 27),))
    assert window.target == (window.begin + 6, window.begin + 6)


def test_a_space_that_belongs_to_a_token_is_no_part_of_the_answer():
    vocab = {name: number for number, name in enumerate([*SPECIAL_TOKENS, "Ġcat", "Ġmat", "a", "Ġ"])}
    backend = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True, trim_offsets=False)
    [window] = windows_of(Tokenizer(backend), "cat mat cat")
    assert window.answer(window.begin + 1, window.begin + 1) == ("mat", 4)


def test_the_answer_is_a_span_of_tokens_in_the_window_that_holds_all_of_it(tokenizer):
    context = f"{words(11)} the mat {words(3)}"
    stride = (16 - len("a") - 3) // 2
    found = windows_of(tokenizer, context, question="a", answers=(Answer("mat", len(words(11)) + 5),), length=16)
    assert [(window.skipped, window.target) for window in found] == [(0, (0, 0)), (stride, (9, 9))]
    split = windows_of(tokenizer, context, question="a", answers=(Answer("the mat", len(words(11)) + 1),), length=16)
    assert [window.target for window in split] == [(0, 0), (8, 9)]


def test_an_answer_that_no_window_holds_is_counted(tokenizer):
    notes = Notes()
    answers = (Answer(words(9), 0),)
    found = windows_of(tokenizer, words(20), answers=answers, length=12, training=True, notes=notes)
    assert {window.target for window in found} == {(0, 0)}
    assert notes.counts == {"answers that do not fit into a window": 1}


def test_an_answer_inside_a_word_takes_the_tokens_it_touches():
    tokenizer = wordpiece([*SPECIAL_TOKENS, "who", "cook", "##ed", "##s", "chef"])
    [window] = windows_of(tokenizer, "chef cooked", answers=(Answer("ooke", 6),))
    assert window.target == (window.begin + 1, window.begin + 2)


def test_an_unanswerable_question_points_to_the_first_token(tokenizer):
    [window] = windows_of(tokenizer, "the cat", answers=(), training=True)
    assert window.target == (0, 0)


def test_a_question_without_a_usable_answer_is_left_out_of_training_and_counted(tokenizer):
    notes = Notes()
    answers = (Answer("dog", 0),)
    assert windows_of(tokenizer, "the cat", answers=answers, training=True, notes=notes) == []
    assert notes.counts == {"answers not in their context": 1, "questions skipped: no answer to train on": 1}
    assert len(windows_of(tokenizer, "the cat", answers=answers)) == 1
    assert windows_of(tokenizer, "the cat", training=True) == []


def test_an_answer_at_another_place_is_repaired_and_counted(tokenizer):
    notes = Notes()
    [window] = windows_of(tokenizer, "the cat", answers=(Answer("cat", 0),), training=True, notes=notes)
    assert window.target == (window.begin + 1, window.begin + 1)
    assert notes.counts == {"answers found at another position": 1}


def test_the_first_answer_that_is_found_is_learnt(tokenizer):
    [window] = windows_of(tokenizer, "the cat", answers=(Answer("dog", 0), Answer("cat", 4)), training=True)
    assert window.target == (window.begin + 1, window.begin + 1)


def test_a_long_question_is_cut_and_counted(tokenizer):
    notes = Notes()
    found = windows_of(tokenizer, "the cat", question=words(80), length=512, notes=notes)
    assert found[0].begin == 66
    assert notes.counts == {"truncated questions": 1}
    assert windows_of(tokenizer, words(30), question=words(80), length=16)[0].begin == 8  # half of a short model


def test_an_answer_too_long_to_be_predicted_is_counted(tokenizer):
    notes = Notes()
    for count in (30, 31):
        windows_of(tokenizer, words(40), answers=(Answer(words(count), 0),), length=64, notes=notes)
    assert notes.counts == {"answers of more than 30 tokens, which are never predicted": 1}


def test_a_length_without_room_for_the_context_is_refused(tokenizer):
    assert [len(window.ids) for window in windows_of(tokenizer, words(3), length=4)] == [4, 4, 4]
    with pytest.raises(TaskError, match="max_length=3 leaves no room"):
        windows_of(tokenizer, words(3), length=3)


def test_an_empty_context_gives_one_window_without_starts(tokenizer):
    [window] = windows_of(tokenizer, "")
    assert (len(window.ids), window.starts) == (window.begin + 1, range(window.begin, window.begin))
