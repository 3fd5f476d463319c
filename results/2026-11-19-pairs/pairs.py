"""python pairs.py COMMAND... is `electra COMMAND...` whose cut `sentences` adds a [SEP] between two sentences.

Half of the spans with several sentences are divided, at the end of a random one but the last.
"""

from bisect import bisect_left, bisect_right
from itertools import pairwise

import numpy as np

from electra.cli import main
from electra.data.corpus.cut import CUTS, SHORTEST_PIECE, SentenceCut


class PairCut(SentenceCut):
    """Rows of spans `[CLS] text [SEP]` or `[CLS] text [SEP] text [SEP]`."""

    def add(self, ids, sentence_tokens, first=True, last=True):
        """Yield the rows that a document completes."""
        sentences = np.cumsum(sentence_tokens).tolist()
        place, total = 0, len(ids)
        while place < total:
            room = self.frame.length - self.used - 2
            if room < min(total - place, SHORTEST_PIECE):
                yield from self.finish()
                continue
            if first:
                self.starts.append(self.used)
                first = False
            ends, column = self._ends(place, place + room, sentences), self.used + 1
            self.row[self.used] = self.frame.cls_id
            for start, end in pairwise([place, *ends]):
                self.row[column : column + end - start] = ids[start:end]
                column += end - start + 1
                self.row[column - 1] = self.frame.sep_id
            self.tokens += ends[-1] - place
            place = self._next_place(place, ends[-1], sentences)
            self.used = column

    def _ends(self, start, most, sentences):
        whole = min(most, sentences[-1])
        inner = sentences[bisect_right(sentences, start) : bisect_left(sentences, whole - 1)]
        if inner and self.random.random() < 0.5:
            return [self.random.choice(inner), min(most - 1, sentences[-1])]
        return [whole]


CUTS["sentences"] = PairCut
main()
