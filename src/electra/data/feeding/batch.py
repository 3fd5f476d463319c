"""Batches and how they are derived from stored token ids.

The arithmetic works for numpy arrays and torch tensors, so it runs where the ids are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from electra.data.corpus.shards import Corpus, Split
from electra.data.settings import Cut
from electra.errors import DataError

Array = TypeVar("Array")  # a numpy array or torch tensor


@dataclass(frozen=True)
class Batch(Generic[Array]):
    """B sequences of L tokens."""

    ids: Array  # (B, L)
    attention: Array | None  # (B, L) document number of each token, 0 for padding; None: one document per row
    types: Array | None  # (B, L) 1 in the second segment of the `paper` cut, else 0; None: no segments


@dataclass(frozen=True)
class Layout:
    """How the sequences of a corpus are laid out."""

    cut: Cut
    pad_id: int
    cls_id: int
    sep_id: int
    whole: bool  # every sequence is from one document, without padding; no attention mask is needed

    def batch(self, ids: Any) -> Batch[Any]:
        """Return a batch with the attention mask and segments derived from ids (B, L)."""
        attention = types = None
        if not self.whole:
            attention = (ids == self.cls_id).cumsum(1) * (ids != self.pad_id)  # each document begins with [CLS]
        if self.cut == "paper":
            ends = ids == self.sep_id
            types = (ends.cumsum(1) > ends * 1) * (ids != self.pad_id) * 1  # 1 after the first [SEP]
        return Batch(ids, attention, types)


def common_layout(corpora: Sequence[Corpus], split: Split) -> Layout:
    """Return the common layout of corpora, or raise an error that names a difference."""
    if not corpora:
        raise DataError("no corpus to load from")
    first = corpora[0].manifest
    for corpus in corpora[1:]:
        for name in ("length", "cut", "tokenizer_sha256"):
            ours, theirs = getattr(first, name), getattr(corpus.manifest, name)
            if ours != theirs:
                raise DataError(f"{corpora[0].path} and {corpus.path} cannot be mixed: {name} is {ours} and {theirs}")
    shards = [shard for corpus in corpora for shard in corpus.manifest.splits[split]]
    ids = first.special_ids
    return Layout(
        cut=first.cut,
        pad_id=ids["pad"],
        cls_id=ids["cls"],
        sep_id=ids["sep"],
        # `tokens` counts only text; a second document, a second segment or padding would reduce it.
        whole=all(shard.tokens == shard.sequences * (first.length - 2) for shard in shards),
    )
