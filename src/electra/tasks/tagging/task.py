"""Tagging: a tag for every word, predicted at its first piece.

Shapes: B rows, L tokens, T tags.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, pairwise
from typing import Any

import torch
import torch.nn.functional as F
from tokenizers import Encoding
from torch import Tensor

from electra.config.tasks import TaggingConfig
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.model.body import Body
from electra.model.heads import find_head
from electra.model.networks import TaskNetwork
from electra.tasks.base import Batch, Defaults, Feature, Known, Notes, Output, Prediction, Served, Task, mean_where
from electra.tasks.shown import Block, Details, Field, Headline, Marked, Piece
from electra.tasks.tagging.head import TaggingHead
from electra.tasks.tagging.spans import OUTSIDE, TAG, Span, find_spans, marks_spans, scheme_of, span_scores, write_tags
from electra.tasks.texts.labels import listed

Targets = list[int | None]  # tag of each word that fits; None for a tag that is not in the training data


@dataclass(frozen=True)
class Sentence:
    """Words, and their tags if known."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None
    where: str = field(default="", repr=False)  # file and line, for messages
    id: Any = None  # identifier in a table

    def __post_init__(self) -> None:
        """Refuse empty tags."""
        if not all(map(str.strip, self.tags or ())):
            raise TaskError(f"{self.where}: an empty tag; every word needs a tag")


@dataclass(frozen=True)
class TaggingFeature(Feature[Targets]):
    """A sentence as input, and the positions of the first pieces of its words."""

    starts: tuple[int, ...] = ()


class TaggingTask(Task[Sentence, TaggingFeature, TaggingHead]):
    """A task on words, independent of their files; `known` is what `learn_tags` returns."""

    defaults = Defaults(max_length=256)

    def __init__(self, settings: TaggingConfig, known: Known, plain: bool = False) -> None:
        self._known = known
        self.labels = tuple(known["labels"])
        marks_ends = any(label.startswith(("E-", "S-")) for label in self.labels)  # in models of other programs
        self._settings = settings.model_copy(update={"scheme": "bioes"}) if marks_ends else settings
        self._plain = plain or not marks_spans(self.labels)
        self.metric = "accuracy" if self._plain else "f1"

    @property
    def fields(self) -> tuple[Field, ...]:
        return (Field("Sentence", "Put a space between words, and before a full stop or a comma."),)

    def example(self, texts: Sequence[str]) -> Sentence:
        return Sentence(tuple(texts[0].split()))

    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        words: list[str] = prediction["words"]
        if "spans" in prediction:
            found = [(span["start"], span["end"] + 1, span["type"]) for span in prediction["spans"]]
            headline = f"{len(found)} found" if found else "Nothing found"
            kinds = sorted({label[2:] for label in self.labels if label != OUTSIDE})
        else:
            found = [(place, place + 1, tag) for place, tag in enumerate(prediction["tags"])]
            headline, kinds = f"{len(found)} words tagged", list(self.labels)
        pieces: list[Piece] = []
        for (_, end, _), (start, stop, kind) in pairwise([(0, 0, ""), *found, (len(words), len(words), "")]):
            pieces += map(Piece, words[end:start])
            if stop > start:
                pieces.append(Piece(" ".join(words[start:stop]), kinds.index(kind), kind))
        spaced = [part for piece in pieces for part in (Piece(" "), piece)][1:]
        chances = ["not read" if chance is None else chance for chance in prediction["probabilities"]]
        rows = list(zip(words, prediction["tags"], chances, strict=True))
        return [Headline(headline), Marked(spaced), Details("Every word, its tag and probability", rows)]

    def describe(self) -> dict[str, Any]:
        return dict(self._known)

    def detected(self) -> list[str]:
        written = f", written as {self._known['scheme']}" if self._known.get("scheme") else ""
        kind = "single tags" if self._plain else f"tags of spans{written}, predicted as {self._settings.scheme.upper()}"
        return [f"{len(self.labels)} {kind}: {listed(self.labels)}"]

    def features(
        self, examples: Sequence[Sentence], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[TaggingFeature]:
        """Frame each sentence as [CLS] words [SEP]; words that do not fit are noted and count as O."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        features: list[TaggingFeature] = []
        encodings = tokenizer.encode_words([example.words for example in examples])
        for number, (example, encoding) in enumerate(zip(examples, encodings, strict=True)):
            pieces, starts = _pieces(encoding, len(example.words), tokenizer.unk_id, notes)
            seen = tuple(start for start in starts if start < max_length - 1)
            notes.add("truncated sentences", len(seen) < len(starts))
            notes.add("truncated words", len(starts) - len(seen))
            ids = [tokenizer.cls_id, *pieces[: max_length - 2], tokenizer.sep_id]
            targets = None
            if example.tags is not None:
                gold = [numbers.get(tag) for tag in self._gold(example)]
                notes.add("words whose tag is not in the training data", gold.count(None))
                targets = gold[: len(seen)]
            features.append(TaggingFeature(number, ids, [0] * len(ids), targets, seen))
        return features

    def head(self, encoder: Body) -> TaggingHead:
        head: TaggingHead = find_head(f"{encoder.family}ForTokenClassification")(encoder.config, len(self.labels))
        return head

    def batch(self, features: Sequence[TaggingFeature], rows: int, length: int) -> Batch:
        """Return the tags (rows, length) at first pieces of words, and weights that are 1 there and 0 elsewhere."""
        tags = torch.zeros(rows, length, dtype=torch.long)
        weights = torch.zeros(rows, length)
        for row, feature in enumerate(features):
            for start, tag in zip(feature.starts, feature.target or [], strict=True):
                if tag is not None:
                    tags[row, start], weights[row, start] = tag, 1
        return {"tags": tags, "tag_weights": weights}

    def loss(self, head: TaggingHead, hidden: Tensor, batch: Batch) -> Tensor:
        losses = F.cross_entropy(head(hidden).float().transpose(1, 2), batch["tags"], reduction="none")  # (B, L)
        return mean_where(losses, batch["tag_weights"])

    def outputs(self, head: TaggingHead, hidden: Tensor, batch: Batch) -> Batch:
        best = head(hidden).float().softmax(-1).max(-1)
        return {"tags": best.indices, "probabilities": best.values}

    def predictions(
        self, examples: Sequence[Sentence], features: Sequence[TaggingFeature], outputs: Sequence[Output]
    ) -> list[Prediction]:
        found = []
        for example, feature, output in zip(examples, features, outputs, strict=True):
            starts, lost = list(feature.starts), len(example.words) - len(feature.starts)
            tags = [self.labels[number] for number in output["tags"][starts]] + [OUTSIDE] * lost
            chances = [*map(float, output["probabilities"][starts]), *[None] * lost]
            known_as = {} if example.id is None else {"id": example.id}
            prediction = {**known_as, "words": list(example.words), "tags": tags, "probabilities": chances}
            if not self._plain:
                spans = [(span, " ".join(example.words[span.start : span.end + 1])) for span in self._spans(tags)]
                prediction["spans"] = [{"type": span.type, "text": text, **span._asdict()} for span, text in spans]
            found.append(prediction)
        return found

    def score(self, examples: Sequence[Sentence], predictions: Sequence[Prediction]) -> dict[str, float]:
        from electra.tasks.texts import metrics  # imported here because it takes two seconds

        truth = [self._gold(example) for example in examples]
        guess = [prediction["tags"] for prediction in predictions]
        accuracy = metrics.accuracy([tag for tags in truth for tag in tags], [tag for tags in guess for tag in tags])
        if self._plain:
            return {"accuracy": accuracy}
        spans = span_scores([self._spans(tags) for tags in truth], [self._spans(tags) for tags in guess])
        return {**spans, "accuracy": accuracy}

    def is_constant(self, examples: Sequence[Sentence], predictions: Sequence[Prediction]) -> bool:
        truth = {tag for example in examples for tag in self._gold(example)}
        return len(truth) > 1 and len({tag for prediction in predictions for tag in prediction["tags"]}) == 1

    def is_labeled(self, example: Sentence) -> bool:
        return example.tags is not None

    def _spans(self, tags: Sequence[str]) -> list[Span]:
        return find_spans(tags, self._settings.spans)

    def _gold(self, example: Sentence) -> list[str]:
        return network_tags(example, self._settings, self._plain)


def serve(network: TaskNetwork) -> Served | None:
    """Use a tagger that another program fine-tuned on a table; its columns are not known."""
    if network.head.labeled != "tokens":
        return None
    columns = {"kind": "tagging", "text": "words", "label": "tags"}
    return Served("table", {"columns": columns, "labels": [*network.labels]})


def network_tags(example: Sentence, settings: TaggingConfig, plain: bool) -> list[str]:
    """Return the tags of a sentence in the scheme that the network predicts."""
    if example.tags is None:
        raise TaskError(f"{example.where}: a sentence without tags cannot be scored")
    if plain:
        return list(example.tags)
    if odd := [tag for tag in example.tags if not TAG.fullmatch(tag)]:
        raise TaskError(
            f"{example.where}: tag {odd[0]!r} does not mark a span; allowed are tags such as B-PER, I-PER and O"
        )
    return write_tags(find_spans(example.tags, settings.spans), len(example.words), settings.scheme)


def learn_tags(examples: Sequence[Sentence], settings: TaggingConfig, plain: bool = False) -> dict[str, Any]:
    """Return the tags that the network predicts for the training sentences, O first, and the scheme of the file."""
    plain = plain or not marks_spans(tag for example in examples for tag in example.tags or ())
    found = {tag for example in examples for tag in network_tags(example, settings, plain)}
    scheme = None if plain else scheme_of(example.tags or () for example in examples)
    return {"labels": sorted(found, key=lambda tag: (tag != OUTSIDE, tag)), "scheme": scheme}


def _pieces(encoding: Encoding, words: int, unknown: int, notes: Notes) -> tuple[list[int], list[int]]:
    """Return the pieces of all words, and the start of each word, counting [CLS]."""
    by_word: list[list[int]] = [[] for _ in range(words)]
    for piece, word in zip(encoding.ids, encoding.word_ids, strict=True):
        assert word is not None  # only special tokens have no word
        by_word[word].append(piece)
    notes.add("words without any piece, read as unknown", by_word.count([]))
    filled = [part or [unknown] for part in by_word]
    *starts, _ = accumulate(map(len, filled), initial=1)
    return list(chain.from_iterable(filled)), starts
