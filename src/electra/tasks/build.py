"""Which task a name means, and which task serves a network that another program fine-tuned."""

from importlib import import_module

from electra.config.finetune import FinetuneConfig
from electra.config.keys import did_you_mean
from electra.errors import TaskError
from electra.model.networks import TaskNetwork
from electra.tasks.base import AnyTask, Family, Known, MakeTask, Served

FOLDERS = (  # of this package, one for each family
    "texts",
    "answering",
    "tagging",
    "table",
    "choice",
    "similarity",
)
FAMILIES: list[Family] = [import_module(f"electra.tasks.{folder}").FAMILY for folder in FOLDERS]
TASKS: dict[str, MakeTask] = {name: family.make for family in FAMILIES for name in family.tasks}


def build_task(config: FinetuneConfig, known: Known | None = None) -> AnyTask:
    """Make the task of a config; what is `known` from a stored model is not looked up in the data again."""
    if config.task is None:
        raise TaskError(f"which task? set task=NAME, one of {', '.join(TASKS)}")
    return find_task(config.task)(config.task, config, known or {})


def find_task(name: str) -> MakeTask:
    """Return what makes the task of a name."""
    if name not in TASKS:
        raise TaskError(f"no task {name!r}{did_you_mean(name, TASKS)} (tasks: {', '.join(TASKS)})")
    return TASKS[name]


def serve(network: TaskNetwork) -> Served:
    """Return the task for a network that another program fine-tuned, from the first family that knows its head."""
    for family in FAMILIES:
        if served := family.serve(network):
            return served
    raise TaskError(f"no task for a model with the head {network.head.architecture}; set task=NAME")
