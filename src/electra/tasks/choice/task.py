"""The task of choosing one of several options. Each option is scored with the context, one row of a batch each.

Shapes: B rows, L tokens, H hidden size, G rows in a group.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from electra.config.finetune import FinetuneConfig
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import TaskError
from electra.model.body import Body
from electra.model.heads import find_head
from electra.model.networks import TaskNetwork
from electra.tasks.base import Batch, Feature, Known, Notes, Output, Prediction, Served, Split, Task, mean_where
from electra.tasks.choice.columns import FILES, READINGS, Choice, ChoiceColumns, find_columns, read_file
from electra.tasks.choice.head import ChoiceHead, HuggingFaceChoiceHead, ModernChoiceHead
from electra.tasks.shown import Block, Field, Headline, Shares
from electra.tasks.table.files import Table
from electra.tasks.texts.pictures import calibration
from electra.tasks.texts.task import frame

AnyHead = ChoiceHead | HuggingFaceChoiceHead | ModernChoiceHead
SPECIALS = 3  # [CLS] and two [SEP]
LOWEST = -1e9  # score of a row that does not count


@dataclass(frozen=True)
class OptionFeature(Feature[bool]):
    """A context with one option; the target is whether it is the right one."""

    filler: bool = False  # fills a group and does not count


def serve(network: TaskNetwork) -> Served | None:
    """Use a model that another program fine-tuned; its columns are detected in the data."""
    return Served("choice", {"columns": None}) if isinstance(network.head, AnyHead) else None


class ChoiceTask(Task[Choice, OptionFeature, AnyHead]):
    """Multiple choice on a table; examples may differ in the number of their options."""

    metric = "accuracy"
    pooled = True

    def __init__(self, name: str, config: FinetuneConfig, known: Known) -> None:
        self.name, self._settings, self._paper_head = name, config.table, config.head == "paper"
        self._table = Table(config, known, read_file, FILES)
        self._columns: ChoiceColumns | None = None  # None: detected in each file
        self._known: dict[str, Any] = {key: known[key] for key in ("reading", "options") if key in known}
        if self._known.get("reading", "index") not in READINGS:
            raise ValueError("an unknown reading")
        if not known:
            rows = self._table.read_training_file()
            self._columns = find_columns(rows, config.table, labeled=True)
            self._table.texts = self._columns.texts
            self._table.learn(rows)
            counts = [len(self._columns.read(row, None, labeled=False).options) for row in rows]
            self._known = {"reading": self._columns.find_reading(rows), "options": [min(counts), max(counts)]}
            self.group = max(counts)
        elif known.get("columns"):
            set_now = config.table.model_dump(exclude_none=True)
            self._columns = ChoiceColumns.build({**known["columns"], **set_now})
            self._table.texts = self._columns.texts

    @property
    def fields(self) -> tuple[Field, ...]:
        return Field("Context", lines=4), Field("Options", "One option per line, at least two.", lines=4)

    def example(self, texts: Sequence[str]) -> Choice:
        options = tuple(line.strip() for line in texts[1].splitlines() if line.strip())
        if len(options) < 2:
            raise TaskError("write at least two options, one per line")
        return Choice(texts[0].strip(), options)

    def show(self, texts: Sequence[str], prediction: Prediction) -> list[Block]:
        options = self.example(texts).options
        return [Headline(prediction["option"]), Shares([*zip(options, prediction["probabilities"], strict=True)])]

    def fits(self, network: TaskNetwork) -> bool:
        return isinstance(network.head, AnyHead)

    def describe(self) -> dict[str, Any]:
        columns = asdict(self._columns) if self._columns else None
        return {"columns": columns, **self._known, **self._table.describe()}

    def detected(self) -> list[str]:
        if self._columns is None:
            return []
        fewest, most = self._known["options"]
        count = f"{most}" if fewest == most else f"{fewest} to {most}"
        meant = f"{count} options per example; {READINGS[self._known['reading']]}"
        unused = self._table.unused(*self._columns.texts, self._columns.label, self._columns.id)
        return [str(self._columns), meant, *unused]

    def read(self, split: Split, notes: Notes) -> list[Choice]:
        rows, labeled = self._table.read(split, notes), split != "test"
        columns = self._columns or find_columns(rows, self._settings, labeled)
        reading = self._known.get("reading") or columns.find_reading(rows)
        examples = [columns.read(row, reading, labeled) for row in rows]
        notes.add("empty contexts", sum(not example.context for example in examples))
        return examples

    def inputs(self, source: str, notes: Notes) -> Iterator[Choice]:
        columns = self._columns
        for row in read_file(source):
            columns = columns or find_columns([row], self._settings, labeled=False)
            yield columns.read(row, None, labeled=False)

    def features(
        self, examples: Sequence[Choice], tokenizer: Tokenizer, max_length: int, notes: Notes, training: bool
    ) -> list[OptionFeature]:
        """Frame each option as [CLS] context [SEP] option [SEP]; fillers complete the last group of an example.

        If a pair is too long, the context loses its beginning: its end is next to the option, or is the question.
        """
        encodings = iter(tokenizer.encode([text for one in examples for text in (one.context, *one.options)]))
        room = max_length - SPECIALS
        features: list[OptionFeature] = []
        for number, example in enumerate(examples):
            context, *options = (next(encodings).ids for _ in range(len(example.options) + 1))
            longest = max(map(len, options))
            notes.add("truncated contexts", bool(context) and len(context) + longest > room)
            notes.add("truncated options", sum(len(option) > room for option in options))
            known = example.right is not None
            for place, option in enumerate(options):
                kept = option[:room]
                start = max(0, len(context) + len(kept) - room)
                target = place == example.right if known else None
                features.append(OptionFeature(number, *frame([context[start:], kept], tokenizer), target))
            filler = OptionFeature(number, *frame([[]], tokenizer), False if known else None, filler=True)
            features += [filler] * (-len(options) % self.group)
        return features

    def head(self, encoder: Body) -> AnyHead:
        make = ChoiceHead if self._paper_head else find_head(f"{encoder.family}ForMultipleChoice")
        head: AnyHead = make(encoder.config)
        return head

    def batch(self, features: Sequence[OptionFeature], rows: int, length: int) -> Batch:
        """Return (rows,) which rows are options, and which of them are right."""
        options, right = torch.zeros(2, rows)
        options[: len(features)] = torch.tensor([not feature.filler for feature in features]).float()
        right[: len(features)] = torch.tensor([bool(feature.target) for feature in features]).float()
        return {"options": options, "right": right}

    def loss(self, head: AnyHead, hidden: Tensor, batch: Batch) -> Tensor:
        scores = head(hidden, batch["attention"]).float().masked_fill(batch["options"] == 0, LOWEST)
        grouped, right, weights = (part.view(-1, self.group) for part in (scores, batch["right"], batch["weights"]))
        return mean_where(-(grouped.log_softmax(-1) * right).sum(-1), weights[:, 0])

    def outputs(self, head: AnyHead, hidden: Tensor, batch: Batch) -> Batch:
        return {"scores": head(hidden, batch["attention"])}

    def predictions(
        self, examples: Sequence[Choice], features: Sequence[OptionFeature], outputs: Sequence[Output]
    ) -> list[Prediction]:
        scores: list[list[float]] = [[] for _ in examples]
        for feature, output in zip(features, outputs, strict=True):
            if not feature.filler:
                scores[feature.example].append(float(output["scores"]))
        found = []
        for example, values in zip(examples, scores, strict=True):
            chances = torch.tensor(values, dtype=torch.float64).softmax(0)
            best = int(chances.argmax())
            named = {} if example.id is None else {"id": example.id}
            found.append(named | {"choice": best, "option": example.options[best], "probabilities": chances.tolist()})
        return found

    def score(self, examples: Sequence[Choice], predictions: Sequence[Prediction]) -> dict[str, float]:
        return {"accuracy": sum(_hits(examples, predictions)) / len(examples)}

    def is_constant(self, examples: Sequence[Choice], predictions: Sequence[Prediction]) -> bool:
        places = {example.right for example in examples}
        return len(places) > 1 and len({prediction["choice"] for prediction in predictions}) == 1

    def is_labeled(self, example: Choice) -> bool:
        return example.right is not None

    def pictures(self, examples: Sequence[Choice], predictions: Sequence[Prediction]) -> dict[str, str]:
        confidence = [max(prediction["probabilities"]) for prediction in predictions]
        return {"calibration.svg": calibration(confidence, _hits(examples, predictions))}


def _hits(examples: Sequence[Choice], predictions: Sequence[Prediction]) -> list[bool]:
    return [example.right == prediction["choice"] for example, prediction in zip(examples, predictions, strict=True)]
