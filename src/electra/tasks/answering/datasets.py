"""The public datasets of question answering, as files or from the hub."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from electra.config.finetune import FinetuneConfig
from electra.data.reading.sources import is_dataset
from electra.tasks.answering.files import checked, read_questions
from electra.tasks.answering.questions import Question
from electra.tasks.answering.task import QuestionAnswering
from electra.tasks.base import HUB, Notes, Split, task_file, task_folder


@dataclass(frozen=True)
class Dataset:
    """The files of a dataset, and whether it has questions without an answer."""

    files: tuple[str, ...]  # possible names, in order of preference
    hub: str = "plain_text"  # config of the dataset on the hub
    unanswerable: bool = False


DATASETS = {
    "squad-1.1": Dataset(("{split}-v1.1.json", "{split}.json")),
    "squad-2.0": Dataset(("{split}-v2.0.json", "{split}.json"), hub="squad_v2", unanswerable=True),
    "mrqa": Dataset(("{split}.jsonl", "{split}.jsonl.gz")),
}


class DatasetAnswering(QuestionAnswering):
    """Question answering on one of the public datasets."""

    def __init__(self, name: str, config: FinetuneConfig, known: Mapping[str, Any]) -> None:
        self.dataset = DATASETS[name]
        super().__init__(name, config.head, self.dataset.unanswerable, known)
        self._data, self._file = config.data, config.file

    def read(self, split: Split, notes: Notes) -> list[Question]:
        sources = self._sources(split)
        questions = checked(chain.from_iterable(map(read_questions, sources)), sources[0])
        self.note_unanswerable(questions, notes)
        return questions

    def inputs(self, source: str, notes: Notes) -> Iterator[Question]:
        return read_questions(source)

    def _sources(self, split: Split) -> list[str]:
        named, hub_split = self._file(split), HUB[split]
        on_hub = self._data is not None and is_dataset(self._data)
        if on_hub and named is None:
            return [f"{self._data}:{self.dataset.hub}:{hub_split}"]
        folder = Path() if on_hub else task_folder(self._data, [self.name])
        packed = [str(path) for path in sorted(folder.glob(f"{hub_split}*.parquet"))]
        if packed and not named:
            return packed
        usual = [name.format(split=split) for name in self.dataset.files]
        return [str(task_file(folder, [named] if named else usual))]
