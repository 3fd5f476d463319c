"""Which task a name means."""

from collections.abc import Callable, Mapping
from typing import Any

from electra.config.finetune import FinetuneConfig
from electra.config.keys import did_you_mean
from electra.errors import TaskError
from electra.tasks.answering.datasets import DATASETS, DatasetAnswering
from electra.tasks.base import Task
from electra.tasks.table.task import table_task
from electra.tasks.tagging import conll
from electra.tasks.texts import glue

Known = Mapping[str, Any]  # what `Task.describe` gave when a model was stored; empty before
AnyTask = Task[Any, Any, Any]
TASKS: dict[str, Callable[[str, FinetuneConfig, Known], AnyTask]] = {
    **dict.fromkeys(glue.TASKS, lambda name, config, known: glue.GlueTask(name, config)),
    **dict.fromkeys(DATASETS, DatasetAnswering),
    **dict.fromkeys(conll.TASKS, conll.ConllTask),
    "table": table_task,
}


def build_task(config: FinetuneConfig, known: Known | None = None) -> AnyTask:
    """Make the task that a config names; what is `known` of a stored model's task need not be found in the data."""
    if config.task is None:
        raise TaskError(f"which task? set task=NAME, one of {', '.join(TASKS)}")
    if config.task not in TASKS:
        raise TaskError(f"no task {config.task!r}{did_you_mean(config.task, TASKS)} (tasks: {', '.join(TASKS)})")
    return TASKS[config.task](config.task, config, known or {})
