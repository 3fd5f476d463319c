"""python sentences.py COMMAND... is `electra COMMAND...` whose cut `sentences` ends half of the spans early.

A span that ends early is a single sentence, or what is left of one.
"""

from bisect import bisect_right

import numpy as np

from electra.cli import main
from electra.data.corpus.cut import CUTS, SHORTEST_PIECE, SentenceCut


class ShortCut(SentenceCut):
    """Rows of spans of one document each, of which half are a single sentence."""

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
            count = min(room, total - place)
            if self.random.random() < 0.5:
                count = min(count, sentences[bisect_right(sentences, place)] - place)
            end = self.used + 1 + count
            self.row[self.used] = self.frame.cls_id
            self.row[self.used + 1 : end] = ids[place : place + count]
            self.row[end] = self.frame.sep_id
            place = self._next_place(place, place + count, sentences)
            self.used = end + 1
            self.tokens += count


CUTS["sentences"] = ShortCut
main()
