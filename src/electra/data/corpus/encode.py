"""Clean and tokenize documents: the stateless part of building a corpus, which runs in worker processes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Encoding

from electra.data.corpus import clean
from electra.data.corpus.clean import Keys
from electra.data.corpus.cut import Counts, Tokens
from electra.data.reading.sentences import sentence_starts
from electra.data.reading.text import Passage
from electra.data.settings import Cleaning
from electra.data.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenBlock:
    """The tokens of P passages with S sentences and T tokens in total, as columns; `ids` may have been left out."""

    ids: Tokens  # (T,)
    sentence_tokens: Counts  # (S,) tokens in each sentence
    sentences: Counts  # (P,) sentences in each passage
    tokens: Counts  # (P,)
    unknown_tokens: Counts  # (P,)
    characters: Counts  # (P,)
    first: npt.NDArray[np.bool_]  # (P,) whether a document begins with it
    last: npt.NDArray[np.bool_]  # (P,) whether a document ends with it
    digests: Keys  # (P,) hash of the text, for the held-out split
    keys: Keys  # (P, K) for finding duplicates
    faults: list[str | None]  # (P) why a document is dropped
    excerpts: list[str]  # (P) for the report

    def without_ids(self) -> "TokenBlock":
        """Return what decides on the documents."""
        return replace(self, ids=self.ids[:0], sentence_tokens=self.sentence_tokens[:0])

    def passages(self) -> Iterator[tuple[Tokens, Counts]]:
        """Yield the tokens of each passage and the number of tokens in each of its sentences."""
        sentence_ends = np.cumsum(self.sentences)
        token_ends = np.cumsum(self.tokens)
        sentence = token = 0
        for sentence_end, token_end in zip(sentence_ends.tolist(), token_ends.tolist(), strict=True):
            yield self.ids[token:token_end], self.sentence_tokens[sentence:sentence_end]
            sentence, token = sentence_end, token_end


def tokenize_documents(
    passages: Sequence[Passage],
    tokenizer: Tokenizer,
    cleaning: Cleaning,
    dtype: np.dtype[Any],
    divide_lines: bool = False,
) -> TokenBlock:
    """Clean and tokenize passages, line by line; a long document is judged by its first passage.

    A line is one sentence, or with `divide_lines` as many as its punctuation suggests.
    """
    texts = [clean.mend(passage.text, cleaning) for passage in passages]
    first = [passage.first for passage in passages]
    faults = [
        clean.fault(text, cleaning, passage.last) if passage.first else None
        for text, passage in zip(texts, passages, strict=True)
    ]
    lines = [[] if fault else text.split("\n") for text, fault in zip(texts, faults, strict=True)]
    every_line = list(chain.from_iterable(lines))
    encodings = tokenizer.encode(every_line)
    ids = [np.array(encoding.ids, dtype) for encoding in encodings]
    sizes = [
        _sentence_sizes(encoding, sentence_starts(line) if divide_lines else [])
        for encoding, line in zip(encodings, every_line, strict=True)
    ]
    counts = iter(map(len, sizes))
    keys = [
        clean.duplicate_keys(text if judge and not fault else "", cleaning)  # other keys are never read
        for text, judge, fault in zip(texts, first, faults, strict=True)
    ]
    sentences = np.array([sum(islice(counts, len(text))) for text in lines], np.int64)
    sentence_tokens = np.array(list(chain.from_iterable(sizes)), np.int64)
    joined = np.concatenate(ids) if ids else np.empty(0, dtype)
    tokens = _sums(sentence_tokens, sentences)
    return TokenBlock(
        ids=joined,
        sentence_tokens=sentence_tokens,
        sentences=sentences,
        tokens=tokens,
        unknown_tokens=_sums(joined == tokenizer.unk_id, tokens),
        characters=np.array([len(text) for text in texts], np.int64),
        first=np.array(first, np.bool_),
        last=np.array([passage.last for passage in passages], np.bool_),
        digests=np.array([clean.digest(text.encode()) for text in texts], np.uint64),
        keys=np.array(keys, np.uint64).reshape(len(keys), clean.KEYS[cleaning.duplicates]),
        faults=faults,
        excerpts=[clean.excerpt(text) for text in texts],
    )


def _sums(values: npt.NDArray[Any], counts: Counts) -> Counts:
    """Return the sum of the first values, of the next ones, and so on: so many each."""
    sums: Counts = np.diff(np.concatenate([[0], np.cumsum(values)])[np.cumsum(counts)], prepend=0)
    return sums


def _sentence_sizes(encoding: Encoding, starts: list[int]) -> list[int]:
    """Return the number of tokens in each sentence of a line whose second and further sentences start here."""
    found = [encoding.char_to_token(start) for start in starts]  # None: the tokenizer drops this character
    places = [0, *(place for place in found if place is not None), len(encoding)]
    return [end - start for start, end in pairwise(places)]
