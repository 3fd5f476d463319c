from collections.abc import Callable
from pathlib import Path

import pytest

from electra.config.load import load_finetune_config
from electra.tasks.base import Task
from electra.tasks.build import build_task


@pytest.fixture
def task(tmp_path) -> Callable[..., Task]:
    """A function from a task's name and further keys to the task whose files are under the test's folder."""

    def make(name: str, *overrides: str, data: Path | str = tmp_path) -> Task:
        return build_task(load_finetune_config("glue", [f"task={name}", f"data={data}", *overrides]))

    return make
