import numpy as np
import pytest
import torch

from electra.data.feeding.batch import Layout, common_layout
from electra.errors import DataError

PACKED = np.array([[2, 9, 3, 2, 8, 7, 3, 0], [2, 9, 9, 9, 9, 9, 9, 3]], np.uint16)
PAPER = np.array([[2, 9, 3, 8, 7, 3, 0, 0], [2, 9, 3, 0, 0, 0, 0, 0]], np.uint16)


def layout(cut: str, whole: bool = False) -> Layout:
    return Layout(cut=cut, pad_id=0, cls_id=2, sep_id=3, whole=whole)


@pytest.mark.parametrize("convert", [np.asarray, lambda ids: torch.as_tensor(ids.astype(np.int64))])
def test_packed_documents_are_numbered_and_padding_is_zero(convert):
    batch = layout("packed").batch(convert(PACKED))
    assert batch.attention.tolist() == [[1, 1, 1, 2, 2, 2, 2, 0], [1] * 8]
    assert batch.types is None


@pytest.mark.parametrize("convert", [np.asarray, lambda ids: torch.as_tensor(ids.astype(np.int64))])
def test_the_second_segment_of_the_paper_cut_has_type_one(convert):
    batch = layout("paper").batch(convert(PAPER))
    assert batch.types.tolist() == [[0, 0, 0, 1, 1, 1, 0, 0], [0] * 8]
    assert batch.attention.tolist() == [[1, 1, 1, 1, 1, 1, 0, 0], [1, 1, 1, 0, 0, 0, 0, 0]]


def test_sequences_of_one_document_need_no_attention_mask():
    assert layout("packed", whole=True).batch(PACKED).attention is None


def test_padding_or_a_second_document_requires_an_attention_mask(save_corpus):
    whole, packed = PACKED[1:], PACKED[:1]
    assert common_layout([save_corpus("a", whole)], "train").whole
    assert not common_layout([save_corpus("b", whole, packed)], "train").whole
    assert not common_layout([save_corpus("c", PAPER, cut="paper")], "train").whole


def test_corpora_with_different_cuts_cannot_be_mixed(save_corpus):
    first = save_corpus("a", PACKED)
    with pytest.raises(DataError, match=r"a and .*b cannot be mixed: cut is packed and paper"):
        common_layout([first, save_corpus("b", PAPER, cut="paper")], "train")
    with pytest.raises(DataError, match="tokenizer_sha256"):
        common_layout([first, save_corpus("c", PACKED, tokenizer_sha256="of another")], "train")


def test_no_corpus_is_refused():
    with pytest.raises(DataError, match="no corpus"):
        common_layout([], "train")
