"""A fine-tuned model in a folder: the network, its tokenizer and a description of the task."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel, Field

from electra.data.checksums import check, write_checksums
from electra.data.files import read_table, write_json
from electra.data.tokens.tokenizer import Tokenizer
from electra.errors import CheckpointError
from electra.model.huggingface import write_network
from electra.model.networks import TaskNetwork
from electra.model.pretrained import TASK, find_folder, load


class _Known(BaseModel):
    """Entries that several task families store about a task."""

    labels: list[str] | None = None
    columns: dict[str, str | list[str] | None] | None = None


class _Description(BaseModel):
    """The entries of `task.json`."""

    name: str | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    known: _Known = _Known()


@dataclass(frozen=True)
class TaskModel:
    """A network with a task head, its tokenizer, and a JSON-serializable description of the task."""

    network: TaskNetwork
    tokenizer: Tokenizer
    task: Mapping[str, Any]  # empty for a folder written by another tool


def write_task_model(model: TaskModel, folder: Path, dtype: torch.dtype = torch.float32) -> None:
    """Write a model folder in Hugging Face's layout, with the description of the task in `task.json`."""
    write_network(model.network, folder, dtype, model.tokenizer)
    write_json(folder / TASK, model.task)
    write_checksums(folder)


def read_task_model(source: str | Path, device: str | None = None) -> TaskModel:
    """Read a fine-tuned model from a run, a Hugging Face folder with a task head, or a hub name."""
    folder = find_folder(source)
    model = load(folder, device)
    if not isinstance(model.network, TaskNetwork):
        raise CheckpointError(
            f"{source} has no supported task head; fine-tune it with: electra finetune PRESET model={source}"
        )
    return TaskModel(model.network, model.tokenizer, read_task(folder))


def read_task(folder: Path) -> dict[str, Any]:
    """Read the description of a model's task, which is empty for a folder written by another tool."""
    check(folder, [TASK])
    path = folder / TASK
    return read_table(path, "the description of a task", CheckpointError, _Description) if path.is_file() else {}
