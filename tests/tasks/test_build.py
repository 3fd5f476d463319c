import pytest

from electra.config.load import load_finetune_config
from electra.errors import TaskError
from electra.tasks.build import TASKS, build_task


@pytest.mark.parametrize("name", [None, "mrcp"])
def test_an_unknown_task_is_answered_with_the_known_ones(name):
    config = load_finetune_config("glue", [f"task={name}"] if name else [])
    with pytest.raises(TaskError, match="mrpc"):
        build_task(config)


@pytest.mark.parametrize("preset", ["glue", "squad", "tagging", "table", "small", "base", "large"])
def test_a_known_task_goes_with_any_preset(preset):
    assert build_task(load_finetune_config(preset, ["task=rte"])).name == "rte"


@pytest.mark.parametrize(
    ("name", "epochs", "doubled"),
    [("cola", 3, False), ("rte", 10, False), ("sts-b", 10, True), ("mrpc", 3, True), ("mnli", 3, False)],
)
def test_the_defaults_are_the_papers(name, epochs, doubled):  # P51
    defaults = build_task(load_finetune_config("glue", [f"task={name}"])).defaults
    assert (defaults.epochs, defaults.max_length, defaults.double_unordered) == (epochs, 128, doubled)


def test_every_task_bears_its_name():
    assert "rte" in TASKS
    assert build_task(load_finetune_config("glue", ["task=sst-2"])).name == "sst-2"
