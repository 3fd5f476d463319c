"""The tasks of GLUE, with the files and labels that the benchmark distributes."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from electra.config.finetune import FinetuneConfig
from electra.errors import TaskError
from electra.tasks.base import Defaults, Known, Notes, Prediction, Split
from electra.tasks.lines import read_inputs
from electra.tasks.shown import Field, column_label
from electra.tasks.texts.glue_files import Benchmark, GlueRow, MissingFileError, Part, is_own, read_own, read_part
from electra.tasks.texts.labels import Classes, Value
from electra.tasks.texts.task import TextExample, TextTask

PAIR = ("sentence1", "sentence2")
YES_NO = Classes(("0", "1"))
YES_NO_F1 = Classes(("0", "1"), positive="1")
ENTAILMENT = Classes(("entailment", "not_entailment"))
THREE_WAY = Classes(("entailment", "neutral", "contradiction"))
SIMILARITY = Value(0, 5, metric="spearman")
TASKS = {
    "cola": Benchmark("CoLA", ("sentence",), "label", Classes(("0", "1"), metric="matthews"), ("cola", "sentence")),
    "sst-2": Benchmark("SST-2", ("sentence",), "label", YES_NO, ("sst2", "sentence")),
    "mrpc": Benchmark(
        "MRPC", ("#1 String", "#2 String"), "Quality", YES_NO_F1, ("mrpc", *PAIR), Defaults(double_unordered=True)
    ),
    "sts-b": Benchmark("STS-B", PAIR, "score", SIMILARITY, ("stsb", *PAIR), Defaults(10.0, double_unordered=True)),
    "qqp": Benchmark("QQP", ("question1", "question2"), "is_duplicate", YES_NO_F1, ("qqp", "question1", "question2")),
    "mnli": Benchmark("MNLI", PAIR, "gold_label", THREE_WAY, ("mnli", "premise", "hypothesis")),
    "qnli": Benchmark("QNLI", ("question", "sentence"), "label", ENTAILMENT, ("qnli", "question", "sentence")),
    "rte": Benchmark("RTE", PAIR, "label", ENTAILMENT, ("rte", *PAIR), Defaults(10.0)),
    "wnli": Benchmark("WNLI", PAIR, "label", YES_NO, ("wnli", *PAIR)),
    "ax": Benchmark("AX", PAIR, "gold_label", THREE_WAY, ("ax", "premise", "hypothesis")),
}
PARTS: dict[str, dict[Split, tuple[str, ...]]] = {  # of splits that are not a single file
    "mnli": {"dev": ("matched", "mismatched"), "test": ("matched", "mismatched")},
    "ax": {"train": (), "dev": ()},  # only a test split, for models fine-tuned on MNLI
}
SUBMISSION = {"matched": "MNLI-m", "mismatched": "MNLI-mm"}  # names of submission files that differ from the folder


class GlueTask(TextTask):
    """A task of GLUE, from the official files or the hub's dataset (by name, or as a folder of Parquet files)."""

    def __init__(self, name: str, config: FinetuneConfig, known: Known) -> None:
        self.name, self.benchmark = name, TASKS[name]
        self.defaults = self.benchmark.defaults
        super().__init__(config, self.benchmark.labels)
        self._data, self._file = config.data, config.file

    @property
    def fields(self) -> tuple[Field, ...]:
        """The texts under their names in the hub's dataset: the files have columns such as #1 String."""
        return tuple(Field(column_label(name)) for name in self.benchmark.hub[1:])

    def read(self, split: Split, notes: Notes) -> list[TextExample]:
        groups = PARTS.get(self.name, {}).get(split, ("",))
        if not groups:
            raise TaskError(f"{self.name} has no {split} split; use --split test with a model fine-tuned on MNLI")
        examples: list[TextExample] = []
        file = self._file(split)
        if file:
            groups = (next((group for group in groups[::-1] if group in Path(file).stem), groups[0]),)
        for group in groups:
            try:
                rows = read_part(self._data, Part(split, group, file), self.benchmark, notes)
                examples += [self._example(row, group) for row in rows]
            except MissingFileError:
                if group == groups[0]:
                    raise
                notes.add(f"{group} part missing")
        if not examples:
            raise TaskError(f"the {split} split of {self.name} has no examples")
        return examples

    def inputs(self, source: str, notes: Notes) -> Iterator[TextExample]:
        """Read texts from GLUE's files, from a table with their columns or those of the hub, or from lines."""
        columns = self.benchmark.columns
        own = read_own(Path(source), self.benchmark, columns, notes)
        table = read_inputs(source, columns, dict(zip(self.benchmark.hub[1:], columns, strict=True)))
        for row in own if is_own(Path(source), self.benchmark) else table:
            yield TextExample(tuple(str(row.cells[column]) for column in columns), id=row.cells.get("index"))

    def files(self, examples: Sequence[TextExample], predictions: Sequence[Prediction]) -> dict[str, str]:
        lines: dict[str, list[str]] = {}
        for example, prediction in zip(examples, predictions, strict=True):
            name = f"{SUBMISSION.get(example.group, self.benchmark.folder)}.tsv"
            lines.setdefault(name, ["index\tprediction\n"]).append(f"{example.id}\t{self._submitted(prediction)}\n")
        return {name: "".join(rows) for name, rows in lines.items()}

    def _submitted(self, prediction: Prediction) -> str:
        if isinstance(self.kind, Value):
            return f"{min(max(prediction['value'], self.kind.low), self.kind.high):.3f}"
        return str(prediction["label"])

    def _example(self, row: GlueRow, group: str) -> TextExample:
        raw = row.cells.get(self.benchmark.label)
        label = None if raw is None else self.kind.parse(raw, row.where)
        return TextExample(tuple(row.cells[column] for column in self.benchmark.columns), label, row.number, group)
