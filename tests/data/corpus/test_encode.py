import numpy as np
import pytest

from electra.data.corpus.encode import tokenize_documents
from electra.data.reading.text import Passage
from electra.data.settings import Cleaning
from electra.data.tokens.tokenizer import SPECIAL_TOKENS, wordpiece
from electra.data.tokens.vocab import train_vocab

TOKENIZER = wordpiece([*SPECIAL_TOKENS, "a", "b", "mask", "[", "]"])
UINT16 = np.dtype(np.uint16)


def test_tokens_are_grouped_by_passage_and_line():
    block = tokenize_documents([Passage("a b\n\nb"), Passage(""), Passage("a")], TOKENIZER, Cleaning(), UINT16)
    found = [(ids.tolist(), lines.tolist()) for ids, lines in block.passages()]
    assert found == [([5, 6, 6], [2, 0, 1]), ([], [0]), ([5], [1])]
    assert block.ids.dtype == np.uint16


@pytest.mark.parametrize("model", ["wordpiece", "unigram", "bpe"])
def test_sentences_are_found_in_the_tokens_of_a_line(tmp_path, model):
    sentences = ["A cat sat. ", 'It "slept."  ', "3.5 pies (all.) ", "Why? ", "猫だ。", "「犬だ。」", "鳥"]
    (tmp_path / "a.txt").write_text("\n".join(sentences * 40))
    line = "".join(sentences)
    tokenizer = train_vocab(tmp_path / "a.txt", size=300, model=model, out=tmp_path / "vocab")
    block = tokenize_documents([Passage(line)], tokenizer, Cleaning(), UINT16, divide_lines=True)
    assert block.ids.tolist() == tokenizer.encode([line])[0].ids
    assert (len(block.sentence_tokens), block.sentences.tolist()) == (len(sentences), [len(sentences)])
    parts = np.split(block.ids, np.cumsum(block.sentence_tokens)[:-1])
    decoded = [tokenizer.backend.decode(part.tolist()).replace(" ", "") for part in parts]
    assert decoded == [sentence.lower().replace(" ", "") for sentence in sentences]


def test_text_never_contains_the_id_of_a_special_token():
    block = tokenize_documents([Passage("[MASK] [CLS] a")], TOKENIZER, Cleaning(), UINT16)
    assert not {TOKENIZER.mask_id, TOKENIZER.cls_id} & set(block.ids.tolist())


def test_a_dropped_document_is_not_tokenized():
    block = tokenize_documents([Passage("a"), Passage("a b a")], TOKENIZER, Cleaning(min_characters=3), UINT16)
    assert (block.faults, block.ids.tolist()) == (["too short", None], [5, 6, 5])


def test_a_document_of_several_passages_is_too_long_even_if_cleaning_shortens_the_first():
    passages = [Passage("a\u200b", True, False), Passage("b", False, True)]
    cleaning = Cleaning(controls="drop", max_characters=3)
    assert tokenize_documents(passages, TOKENIZER, cleaning, UINT16).faults == ["too long", None]


def test_the_text_is_cleaned_first():
    block = tokenize_documents([Passage("\uff41")], TOKENIZER, Cleaning(unicode="NFKC"), UINT16)
    assert block.ids.tolist() == [5]


@pytest.mark.parametrize(("duplicates", "width"), [("keep", 0), ("exact", 1), ("near", 14)])
def test_each_passage_has_its_keys(duplicates, width):
    passages = [Passage("a", True, False), Passage("b", False, True)]
    block = tokenize_documents(passages, TOKENIZER, Cleaning(duplicates=duplicates), UINT16)
    assert block.keys.shape == (2, width)


def test_a_block_may_be_empty():
    assert list(tokenize_documents([], TOKENIZER, Cleaning(), UINT16).passages()) == []
