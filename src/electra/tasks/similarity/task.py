"""Sentence vectors: pairs of texts are compared by the cosine of their vectors.

Shapes: B texts, N examples of G texts (B = N · G), L tokens, H hidden size.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain, islice
from math import ceil
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from electra.config.finetune import FinetuneConfig
from electra.config.tasks import TableConfig
from electra.data.reading.records import Row, read_lines, read_rows
from electra.data.reading.sentences import split_sentences
from electra.data.reading.sources import find_sources
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.model.body import Body
from electra.model.networks import TaskNetwork
from electra.model.sentences import ROLES, SentenceHead, unit_vectors
from electra.tasks.base import (
    PLACES,
    Batch,
    Defaults,
    Feature,
    Known,
    Notes,
    Output,
    Prediction,
    Served,
    Split,
    Task,
    encode,
)
from electra.tasks.shown import Block, Field, Headline, Shares
from electra.tasks.similarity.files import Columns, Pairs, Similar, find_columns, find_inputs, is_raw_text, with_label
from electra.tasks.similarity.losses import contrast, of_sizes, rank
from electra.tasks.similarity.passages import COLUMNS, MOST, halves
from electra.tasks.similarity.retrieval import CUT, find_ranks, score_ranks
from electra.tasks.table.columns import write_columns
from electra.tasks.table.detect import SAMPLE
from electra.tasks.texts.task import frame

SIMCSE_DROPOUT = 0.1
FEW = 100  # texts that are searched; with fewer, scores are higher than in a real search
FLAT = 1e-6  # cosines that differ by less are the same
Target = tuple[int, float]  # number of the text, score of its pair
NOTHING: Target = (-1, 0.0)  # of an empty place in a group


def serve(network: TaskNetwork) -> Served | None:
    """Use a model of sentence-transformers."""
    return Served("similarity", {"prompts": network.head.roles}) if isinstance(network.head, SentenceHead) else None


class SimilarityTask(Task[Similar, Feature[Target], SentenceHead]):
    """Vectors of texts, trained on pairs, triplets, scored or labeled pairs, or raw text."""

    title = "Compare"
    defaults = Defaults(max_length=512)  # passages

    def __init__(self, name: str, config: FinetuneConfig, known: Known) -> None:
        self.name, self._config, self._settings = name, config, config.similarity
        self._table = Pairs(config, known)
        given = {"query": self._settings.query_prompt or "", "passage": self._settings.passage_prompt or ""}
        self._prompts: dict[str, str] = given | known.get("prompts", {})
        self._detected: list[str] = []
        self.metric = "spearman"
        stored = known.get("columns") if "prompts" in known else None  # else of another family
        self._columns = Columns(**stored) if stored else None  # of the training file
        self._table.texts = known.get("texts", ())
        if not known:
            self._learn()

    def _learn(self) -> None:
        """Detect the columns of the training file and of the dev file, if there is one."""
        if self._config.pooling:
            raise TaskError("pooling does not apply to sentence vectors; set similarity.pooling instead")
        if self._config.head:
            raise TaskError("head does not apply to sentence vectors, which are pooled states; drop it")
        rows = self._table.read_training_file()
        columns = self._columns = find_columns(rows, self._config.table)
        self._table.texts = COLUMNS[2:] if is_raw_text(rows[0]) else columns.texts
        if self._settings.text_pairs and not self._raw:
            advice = "drop it, or set table.text without table.pair to the column of raw text"
            raise TaskError(f"{rows[0].where}: similarity.text_pairs is for raw text, but found {columns}; {advice}")
        self._table.learn(rows)
        examples = columns.read(rows, Notes(), training=True)
        self.group = 2 if self._scored else ceil(fmean(len(example.texts) for example in examples))
        if self.group == 2 and self._config.batch_size == 1:
            raise TaskError("batch_size=1 has no other pair to compare a pair with; use at least 2")
        on_dev = self._columns_of("dev", self._table.read("dev", Notes()))
        self.metric = "spearman" if on_dev.kind == "scored" else "ndcg_10"
        kinds = {"scored": "pairs with a score", "labeled": "pairs with a label", "pairs": "pairs of similar texts"}
        given = sum(len(example.texts) - 2 for example in examples)
        negatives = f", with {given:,} negatives" if given else ""
        unused = self._table.unused(*columns.texts, columns.label, columns.id)
        self._detected = [str(columns), f"{kinds[columns.kind]}{negatives}", *unused]
        if self._raw:
            rest = "; the rest of the text is not read" if len(rows) == MOST else ""
            column = self._table.text_column
            named = f", {write_columns({'text': column})}" if column else ""
            self._detected = [f"{len(rows):,} pairs of passages of raw text{named}{rest}"]
            self._learn_twins(examples)
            self._detected += self._table.unused(column)
        if on_dev != columns:
            self._detected.append(f"dev: {on_dev}, {kinds[on_dev.kind]}")

    def _learn_twins(self, examples: Sequence[Similar]) -> None:
        """Turn dropout on if most passages are paired with themselves: nothing else makes their vectors differ."""
        twins = sum(map(_is_twin, examples))
        if 2 * twins > len(examples):
            self.defaults = self.defaults._replace(dropout=SIMCSE_DROPOUT)
            chance = SIMCSE_DROPOUT if self._config.dropout is None else self._config.dropout
            said = f"dropout={chance:g} tells apart" if chance else f"nothing tells apart: set dropout={SIMCSE_DROPOUT}"
            self._detected.append(f"{twins:,} are a passage twice, which {said}")

    @property
    def _raw(self) -> bool:
        return tuple(self._table.texts) == COLUMNS[2:]

    @property
    def _scored(self) -> bool:
        return self._columns is not None and self._columns.kind == "scored"

    def _columns_of(self, split: Split, rows: Sequence[Row]) -> Columns:
        """Return the columns of the training file if these rows have them, or else detect them."""
        columns, settings = self._columns, self._settings_of(rows[0])
        if columns and {*columns.texts, columns.label or columns.text} <= rows[0].cells.keys():
            own = split != "train" and self._table.find(split)  # a file, which may have scores that training lacks
            return with_label(columns, rows, settings) if own else columns
        return find_columns(rows, settings)

    def _settings_of(self, row: Row) -> TableConfig:
        """Return the names of columns that are set; that of raw text for training does not name one of pairs."""
        settings = self._config.table
        raw = self._raw and not settings.pair and settings.text not in row.cells
        return settings.model_copy(update={"text": None}) if raw else settings

    @property
    def fields(self) -> tuple[Field, ...]:
        return Field("Text"), Field("Compare with", "One sentence per line, or a text to search.", lines=8)

    def example(self, texts: Sequence[str]) -> Similar:
        lines = [line.strip() for line in texts[1].splitlines() if line.strip()]
        sentences = lines if len(lines) > 1 else split_sentences(texts[1]) or [texts[1].strip()]
        return Similar((texts[0].strip(), *sentences))

    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        similarities = prediction.get("similarities") or [prediction["similarity"]]
        found = sorted(zip(similarities, self.example(texts).texts[1:], strict=True), reverse=True)
        rows = [(text, similarity) for similarity, text in found]
        return [Headline(found[0][1]), Shares(rows, "Cosine of the vectors", in_percent=False)]

    def fits(self, network: TaskNetwork) -> bool:
        return isinstance(network.head, SentenceHead)

    def describe(self) -> dict[str, Any]:
        columns = asdict(self._columns) if self._columns else None
        found = {"prompts": self._prompts, "columns": columns, "texts": list(self._table.texts)}
        return found | self._table.describe()

    def detected(self) -> list[str]:
        return self._detected

    def read(self, split: Split, notes: Notes) -> list[Similar]:
        rows = self._table.read(split, notes)
        columns = self._columns_of(split, rows)
        examples = columns.read(rows, notes, training=split == "train")
        if split == "test" and self._scored and columns.kind == "pairs":  # hidden scores
            return [example._replace(ranked=False) for example in examples]
        if split == "train":
            return examples
        kept = [example for example in examples if not (example.ranked and _is_twin(example))]
        if not kept and is_raw_text(rows[0]):
            pairs = (halves(example.texts[0]) for example in examples)
            kept = [Similar(pair, ranked=True) for pair in pairs if all(pair)]
            notes.add("texts whose halves find each other, for want of other pairs", len(kept))
        notes.add("pairs of a text and itself, not scored", len(examples) - len(kept))
        if not kept:
            found = "each text is paired with itself, and that it finds itself says nothing"
            raise TaskError(f"{rows[0].where}: {found}; set {split}_file to pairs of different texts")
        return kept

    def inputs(self, source: str, notes: Notes) -> Iterator[Similar]:
        """Read lines with one text, for its vector, or more, separated by tabs, to compare; or a table of them."""
        if find_sources([source])[0][0].format == "text":
            for number, line in enumerate(read_lines(source), 1):
                texts = tuple(text.strip() for text in line.split("\t"))
                if not all(texts):
                    raise TaskError(f"{source} line {number}: a text is empty")
                yield Similar(texts)
            return
        known: dict[tuple[str, ...], Columns] = {}
        rows = read_rows(source)
        start = list(islice(rows, SAMPLE))
        for row in chain(start, rows):
            names = tuple(row.cells)
            if names not in known:
                alike = [other for other in start if tuple(other.cells) == names]
                known[names] = find_inputs(row, alike, self._settings_for(row))
            for example in known[names].read([row], notes):
                yield example._replace(ranked=False)

    def _settings_for(self, row: Row) -> TableConfig:
        """Return the names of columns that are set, or else those of the training file that a new row has."""
        settings, own = self._settings_of(row), self._columns
        pair = [name for name in own.pair if name in row.cells] if own and own.text in row.cells else []
        if not own or not pair or self._raw or settings.text or settings.pair:
            return settings
        return settings.model_copy(update={"text": own.text, "pair": ",".join(pair)})

    def features(
        self, examples: Sequence[Similar], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[Feature[Target]]:
        """Frame each text as [CLS] text [SEP]: for training in groups, otherwise each different text once.

        All groups have the same size. Negatives beyond it go to examples with fewer, and places left over are empty.
        """
        for role, prompt in self._prompts.items():
            taken = len(tokenizer.encode([prompt])[0].ids)
            if taken >= max_length - 2:
                advice = f"leave no room for texts in max_length={max_length}; shorten it, or set a larger max_length"
                raise TaskError(f"the {taken} tokens of similarity.{role}_prompt {advice}")
        prompted = self._prompted(examples)
        encodings = tokenizer.encode(prompted)
        notes.add("truncated texts", sum(len(encoding.ids) > max_length - 2 for encoding in encodings))
        framed = {
            text: frame([encoding.ids[: max_length - 2]], tokenizer)
            for text, encoding in zip(prompted, encodings, strict=True)
        }
        if not training:
            searched = {text for example in examples if example.ranked for text in example.texts[1:]}
            if 0 < len(searched) < FEW:
                always = " and recall_10 is always 100" if len(searched) <= CUT else ""
                notes.add(f"different texts to find, so few that scores are high{always}", len(searched))
            return [Feature(example, *framed[text]) for text, example in prompted.items()]
        numbers: dict[str, int] = {}
        spare = (text for example in examples for text in example.texts[self.group :])
        features = []
        for number, example in enumerate(examples):
            texts = example.texts[: self.group]
            texts += tuple(islice(spare, self.group - len(texts)))
            for text, key in zip(texts, self._keys(texts), strict=True):
                target = numbers.setdefault(text, len(numbers)), example.score or 0.0
                features.append(Feature(number, *framed[key], target))
            features += [Feature(number, [], [], NOTHING) for _ in range(self.group - len(texts))]
        return features

    def _keys(self, texts: Sequence[str]) -> list[str]:
        """Return the texts of an example with their prompts."""
        if len(texts) == 1:
            return [self._prompts[self._settings.role] + texts[0]]
        return [self._prompts["query"] + texts[0], *(self._prompts["passage"] + text for text in texts[1:])]

    def _prompted(self, examples: Sequence[Similar]) -> dict[str, int]:
        """Return each different text with its prompt, and the first example that has it."""
        found: dict[str, int] = {}
        for number, example in enumerate(examples):
            for key in self._keys(example.texts):
                found.setdefault(key, number)
        return found

    def head(self, encoder: Body) -> SentenceHead:
        width = encoder.config.hidden_size
        if larger := [size for size in self._settings.sizes if size >= width]:
            raise TaskError(f"similarity.sizes has {larger[0]}, but vectors of this model have {width} numbers")
        prompts = {ROLES[role][0]: prompt for role, prompt in self._prompts.items() if prompt}
        return SentenceHead(encoder.config, self._settings.pooling or "mean", prompts)

    def recordable(self, batch: Batch) -> bool:
        """Return whether a batch is computed at once; the sizes of chunks depend on its lengths."""
        return batch.get(PLACES, batch["ids"]).numel() <= self._settings.chunk

    def states(self, encoder: Body, head: SentenceHead, batch: Batch) -> Tensor:
        """Return the vectors (B, H); those of a large batch are computed in chunks of similar length.

        In training, the backward pass computes a chunk's activations again: memory does not grow with the batch, and
        the gradient is that of the complete batch (gradient caching; Gao et al. 2021).
        """
        read: Callable[[Tensor, Tensor], Tensor] = head
        if self.recordable(batch) or not torch.is_grad_enabled():
            return read(encode(encoder, batch), batch["attention"])

        def vectors(ids: Tensor, attention: Tensor, types: Tensor) -> Tensor:
            return read(encoder(ids, attention, types), attention)

        inputs = batch["ids"], batch["attention"], batch["types"]
        chunks = split_by_length(batch["attention"].sum(1), self._settings.chunk)
        parts = [
            checkpoint(vectors, *(part[rows, :longest] for part in inputs), use_reentrant=False)
            for rows, longest in chunks
        ]
        return torch.cat(parts)[torch.cat([rows for rows, _ in chunks]).argsort()]

    def batch(self, features: Sequence[Feature[Target]], rows: int, length: int) -> Batch:
        """Return (rows,) the number of each text, and the score of its pair."""
        texts, scores = torch.full((rows,), -1), torch.zeros(rows)
        for row, feature in enumerate(features):
            texts[row], scores[row] = feature.target or NOTHING
        return {"texts": texts, "scores": scores}

    def loss(self, head: SentenceHead, hidden: Tensor, batch: Batch) -> Tensor:
        """Return the loss of vectors (B, H)."""
        texts, scores, weights = (batch[name].view(-1, self.group) for name in ("texts", "scores", "weights"))
        compare, targets = (rank, scores[:, 0]) if self._scored else (contrast, texts)

        def loss(vectors: Tensor) -> Tensor:
            return compare(vectors, targets, weights[:, 0], self._settings.temperature)

        return of_sizes(loss, hidden.view(len(texts), self.group, -1), self._settings.sizes)

    def outputs(self, head: SentenceHead, hidden: Tensor, batch: Batch) -> Batch:
        return {"vectors": hidden}

    def predictions(
        self, examples: Sequence[Similar], features: Sequence[Feature[Target]], outputs: Sequence[Output]
    ) -> list[Prediction]:
        """Return similarities, also the places of right passages among all; of a single text, its vector."""
        places = {key: place for place, key in enumerate(self._prompted(examples))}
        vectors = np.stack([output["vectors"] for output in outputs])
        units = unit_vectors(vectors)
        ranks = self._ranks(examples, places, units)
        found = []
        for example in examples:
            first, *others = (places[key] for key in self._keys(example.texts))
            named = {} if example.id is None else {"id": example.id}
            similarities = (units[others] @ units[first]).tolist()
            if not others:
                found.append(named | {"vector": vectors[first].tolist()})
            elif example.ranked:
                found.append(named | {"similarity": similarities[0], "ranks": ranks[example.texts[0]]})
            else:
                several = {"similarities": similarities} if len(others) > 1 else {"similarity": similarities[0]}
                found.append(named | several)
        return found

    def _ranks(self, examples: Sequence[Similar], places: dict[str, int], units: np.ndarray) -> dict[str, list[int]]:
        """Return the places of the right passages of each query among the passages of all examples."""
        keys = [self._keys(example.texts) for example in examples if example.ranked]
        passages = list(dict.fromkeys(places[key] for _, *others in keys for key in others))
        numbers = {place: number for number, place in enumerate(passages)}
        right: dict[str, dict[int, None]] = {}
        for example, (_, second, *_others) in zip((one for one in examples if one.ranked), keys, strict=True):
            right.setdefault(example.texts[0], {})[numbers[places[second]]] = None
        queries = [places[self._prompts["query"] + text] for text in right]
        own = [numbers.get(places.get(self._prompts["passage"] + text, -1)) for text in right]
        ranks = find_ranks(units[queries], units[passages], [list(wanted) for wanted in right.values()], own)
        return dict(zip(right, ranks, strict=True))

    def score(self, examples: Sequence[Similar], predictions: Sequence[Prediction]) -> dict[str, float]:
        """Score retrieval, or correlations of scores: their means over the groups, and those of each group."""
        from electra.tasks.texts.metrics import pearson, spearman

        pairs = list(zip(examples, predictions, strict=True))
        if examples[0].ranked:
            ranks = {example.texts[0]: prediction["ranks"] for example, prediction in pairs}
            return score_ranks(list(ranks.values()))
        scores: dict[str, dict[str, float]] = {}
        for group in dict.fromkeys(example.group for example in examples):
            chosen = [pair for pair in pairs if pair[0].group == group]
            truth, guess = zip(*((example.score, found["similarity"]) for example, found in chosen), strict=True)
            scores[group] = {"spearman": spearman(truth, guess), "pearson": pearson(truth, guess)}
        means = {name: fmean(found[name] for found in scores.values()) for name in ("spearman", "pearson")}
        return means | {f"spearman_{group}": found["spearman"] for group, found in scores.items() if group}

    def is_constant(self, examples: Sequence[Similar], predictions: Sequence[Prediction]) -> bool:
        values = [prediction["similarity"] for prediction in predictions]
        return len(values) > 1 and max(values) - min(values) < FLAT

    def is_labeled(self, example: Similar) -> bool:
        return example.ranked or example.score is not None


def _is_twin(example: Similar) -> bool:
    """Return whether a text is paired with itself."""
    return len(example.texts) > 1 and example.texts[0] == example.texts[1]


def split_by_length(lengths: Tensor, tokens: int) -> list[tuple[Tensor, int]]:
    """Split rows into chunks of similar length, of at most so many tokens with padding, and say how long each is."""
    order = lengths.argsort(descending=True)
    ordered, chunks, start = lengths[order].clamp(min=1).tolist(), [], 0
    while start < len(ordered):
        end = start + max(1, tokens // ordered[start])
        chunks.append((order[start:end], ordered[start]))
        start = end
    return chunks
