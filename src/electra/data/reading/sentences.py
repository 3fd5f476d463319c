"""Where sentences begin, judging by punctuation in any script."""

import re
from itertools import pairwise

GAP = re.compile(r"""(?:[.!?…।؟۔።]["'”’»)\]]*\s+|[。！？]["'”’»）」』]*\s*)(?=\S)""")


def sentence_starts(line: str) -> list[int]:
    """Return the characters at which the second and further sentences of a line begin."""
    return [gap.end() for gap in GAP.finditer(line)]


def split_sentences(line: str) -> list[str]:
    """Return the sentences of a line, without the spaces between them."""
    parts = (line[start:end].strip() for start, end in pairwise([0, *sentence_starts(line), len(line)]))
    return [sentence for sentence in parts if sentence]
