"""Which task a name means."""

from collections.abc import Callable
from typing import Any

from electra.config.finetune import FinetuneConfig
from electra.config.keys import did_you_mean
from electra.errors import TaskError
from electra.tasks.answering.datasets import DATASETS, DatasetAnswering
from electra.tasks.base import Known, Task
from electra.tasks.table.task import table_task
from electra.tasks.tagging import conll
from electra.tasks.texts import glue

AnyTask = Task[Any, Any, Any]
MakeTask = Callable[[str, FinetuneConfig, Known], AnyTask]
TASKS: dict[str, MakeTask] = {
    **dict.fromkeys(glue.TASKS, glue.GlueTask),
    **dict.fromkeys(DATASETS, DatasetAnswering),
    **dict.fromkeys(conll.TASKS, conll.ConllTask),
    "table": table_task,
}


def build_task(config: FinetuneConfig, known: Known | None = None) -> AnyTask:
    """Make the task that a config names; what is `known` of a stored model's task need not be found in the data."""
    if config.task is None:
        raise TaskError(f"which task? set task=NAME, one of {', '.join(TASKS)}")
    return find_task(config.task)(config.task, config, known or {})


def find_task(name: str) -> MakeTask:
    """Give what makes the tasks of a name."""
    if name not in TASKS:
        raise TaskError(f"no task {name!r}{did_you_mean(name, TASKS)} (tasks: {', '.join(TASKS)})")
    return TASKS[name]
