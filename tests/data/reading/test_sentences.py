from itertools import pairwise

import pytest

from electra.data.reading.sentences import sentence_starts, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        ["One. ", "Two! ", "Three?"],
        ['He said "no."  ', "Then 3.5 (or so.) ", "followed.\t"],
        ["猫だ。", "「犬だ。」", "鳥"],
        ["no end"],
        [""],
    ],
)
def test_a_sentence_starts_after_the_mark_and_space_of_the_last(sentences):
    line = "".join(sentences)
    starts = [0, *sentence_starts(line), len(line)]
    assert [line[start:end] for start, end in pairwise(starts)] == sentences
    assert split_sentences(line) == [sentence.strip() for sentence in sentences if sentence]
