"""Documents to tokens: the pure step of building a corpus, which any engine may run on any machine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from electra.data.corpus import clean
from electra.data.corpus.clean import Keys
from electra.data.corpus.cut import Counts, Tokens
from electra.data.reading.text import Passage
from electra.data.settings import Cleaning
from electra.data.tokens.tokenizer import Tokenizer


@dataclass(frozen=True)
class TokenBlock:
    """Passages as tokens, column by column: P passages of L lines and T tokens in all."""

    ids: Tokens  # (T,)
    line_tokens: Counts  # (L,) tokens in each line
    lines: Counts  # (P,) lines in each passage
    characters: Counts  # (P,)
    first: npt.NDArray[np.bool_]  # (P,) a document begins with it
    last: npt.NDArray[np.bool_]  # (P,) and ends with it
    digests: Keys  # (P,) hash of the text, for the held-out split
    keys: Keys  # (P, K) by which duplicates meet
    faults: list[str | None]  # (P) why a document is to be dropped
    excerpts: list[str]  # (P) for the report

    def passages(self) -> Iterator[tuple[Tokens, Counts]]:
        """Give the tokens of each passage and how many of them stand in each of its lines."""
        line_ends = np.cumsum(self.lines)
        token_ends = np.concatenate([[0], np.cumsum(self.line_tokens)])[line_ends]
        line = token = 0
        for line_end, token_end in zip(line_ends.tolist(), token_ends.tolist(), strict=True):
            yield self.ids[token:token_end], self.line_tokens[line:line_end]
            line, token = line_end, token_end


def tokenize_documents(
    passages: Sequence[Passage], tokenizer: Tokenizer, cleaning: Cleaning, dtype: np.dtype[Any]
) -> TokenBlock:
    """Clean and tokenize passages, line by line; a long document is judged by its first passage."""
    texts = [clean.mend(passage.text, cleaning) for passage in passages]
    first = [passage.first for passage in passages]
    faults = [
        clean.fault(text, cleaning, passage.last) if passage.first else None
        for text, passage in zip(texts, passages, strict=True)
    ]
    lines = [[] if fault else text.split("\n") for text, fault in zip(texts, faults, strict=True)]
    # `fast` leaves out the offsets in the text, which nobody asks for here.
    encodings = tokenizer.backend.encode_batch_fast([line for text in lines for line in text], add_special_tokens=False)
    ids = [np.array(encoding.ids, dtype) for encoding in encodings]
    keys = [
        clean.duplicate_keys(text if judge and not fault else "", cleaning)  # the keys of others are never looked at
        for text, judge, fault in zip(texts, first, faults, strict=True)
    ]
    return TokenBlock(
        ids=np.concatenate(ids) if ids else np.empty(0, dtype),
        line_tokens=np.array([len(line) for line in ids], np.int64),
        lines=np.array([len(text) for text in lines], np.int64),
        characters=np.array([len(text) for text in texts], np.int64),
        first=np.array(first, np.bool_),
        last=np.array([passage.last for passage in passages], np.bool_),
        digests=np.array([clean.digest(text) for text in texts], np.uint64),
        keys=np.array(keys, np.uint64).reshape(len(keys), len(keys[0]) if keys else 0),
        faults=faults,
        excerpts=[clean.excerpt(text) for text in texts],
    )
