"""Clean and tokenize documents: the stateless part of building a corpus, which runs in worker processes."""

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
    """The tokens of P passages with L lines and T tokens in total, as columns."""

    ids: Tokens  # (T,)
    line_tokens: Counts  # (L,) tokens in each line
    lines: Counts  # (P,) lines in each passage
    characters: Counts  # (P,)
    first: npt.NDArray[np.bool_]  # (P,) whether a document begins with it
    last: npt.NDArray[np.bool_]  # (P,) whether a document ends with it
    digests: Keys  # (P,) hash of the text, for the held-out split
    keys: Keys  # (P, K) for finding duplicates
    faults: list[str | None]  # (P) why a document is dropped
    excerpts: list[str]  # (P) for the report

    def passages(self) -> Iterator[tuple[Tokens, Counts]]:
        """Yield the tokens of each passage and the number of tokens in each of its lines."""
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
    # `fast` skips the character offsets, which are not needed here.
    encodings = tokenizer.backend.encode_batch_fast([line for text in lines for line in text], add_special_tokens=False)
    ids = [np.array(encoding.ids, dtype) for encoding in encodings]
    keys = [
        clean.duplicate_keys(text if judge and not fault else "", cleaning)  # other keys are never read
        for text, judge, fault in zip(texts, first, faults, strict=True)
    ]
    return TokenBlock(
        ids=np.concatenate(ids) if ids else np.empty(0, dtype),
        line_tokens=np.array([len(line) for line in ids], np.int64),
        lines=np.array([len(text) for text in lines], np.int64),
        characters=np.array([len(text) for text in texts], np.int64),
        first=np.array(first, np.bool_),
        last=np.array([passage.last for passage in passages], np.bool_),
        digests=np.array([clean.digest(text.encode()) for text in texts], np.uint64),
        keys=np.array(keys, np.uint64).reshape(len(keys), len(keys[0]) if keys else 0),
        faults=faults,
        excerpts=[clean.excerpt(text) for text in texts],
    )
