"""Show sequences of a corpus as text with visible boundaries."""

import random
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from electra.data.corpus.shards import Corpus
from electra.data.corpus.verify import check_corpus
from electra.data.tokens.tokenizer import Tokenizer, load_tokenizer


def show_sequences(corpus: Corpus, count: int) -> list[str]:
    """Return a fixed random sample of training sequences as text; ¶ marks the start of a document, … a continuation."""
    shards, starts = corpus.shards("train"), corpus.documents("train")
    tokenizer = load_tokenizer(corpus.path / "tokenizer")
    ends = list(accumulate(map(len, shards)))
    total = ends[-1] if ends else 0
    places = sorted(random.Random(0).sample(range(total), min(count, total)))
    sources = [corpus.manifest.splits["train"][number] for number in {bisect_right(ends, place) for place in places}]
    check_corpus(corpus, [file for source in sources for file in source.checksums])
    shown = []
    for place in places:
        shard = bisect_right(ends, place)
        row = place - ends[shard] + len(shards[shard])
        begins = set(starts[shard][starts[shard][:, 0] == row][:, 1].tolist())
        lines = _lines(shards[shard][row].tolist(), begins, tokenizer)
        shown.append("\n".join([f"{corpus.manifest.splits['train'][shard].file} sequence {row}", *lines]))
    return shown


def _lines(ids: list[int], begins: set[int], tokenizer: Tokenizer) -> Iterator[str]:
    place = 0
    while tokenizer.sep_id in ids[place:]:
        end = ids.index(tokenizer.sep_id, place)
        opens = ids[place] == tokenizer.cls_id
        text = tokenizer.backend.decode(ids[place + opens : end], skip_special_tokens=False)
        mark = "¶" if place in begins else "…" if opens else " "
        yield f"{mark} {'[CLS] ' if opens else ''}{text} [SEP]"
        place = end + 1
    if place < len(ids):
        yield f"  [PAD] x {len(ids) - place}"
