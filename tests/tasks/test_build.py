import pytest

from electra.config.load import load_finetune_config
from electra.errors import TaskError
from electra.model.bodies import build_body
from electra.model.heads import Head
from electra.model.networks import TaskNetwork
from electra.tasks.answering.head import HuggingFaceSpanHead
from electra.tasks.build import TASKS, build_task, serve
from electra.tasks.tagging.head import TaggingHead
from electra.tasks.texts.head import HuggingFaceClassificationHead


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
def test_the_defaults_are_the_papers(name, epochs, doubled):
    defaults = build_task(load_finetune_config("glue", [f"task={name}"])).defaults
    assert (defaults.epochs, defaults.max_length, defaults.double_unordered) == (epochs, 128, doubled)


def test_every_task_bears_its_name():
    assert "rte" in TASKS
    assert build_task(load_finetune_config("glue", ["task=sst-2"])).name == "sst-2"


@pytest.mark.parametrize(
    ("head", "outputs", "kind"),
    [
        (HuggingFaceClassificationHead, [2], "classification"),
        (TaggingHead, [2], "tagging"),
        (HuggingFaceSpanHead, [], "answering"),
    ],
)
def test_each_family_serves_its_own_heads(tiny_config, head, outputs, kind):
    network = TaskNetwork(build_body(tiny_config.model), head(tiny_config.model, *outputs), ["a", "b"][: sum(outputs)])
    name, known = serve(network)
    assert (name, known["columns"]["kind"]) == ("table", kind)
    assert build_task(load_finetune_config("table", []), known).fits(network)


def test_a_head_that_no_family_knows_is_one_line(tiny_config):
    class UnknownHead(Head, architecture="UnknownHead", names={}):
        """A head of nobody."""

    with pytest.raises(TaskError, match="no task for a model with the head UnknownHead; set task=NAME"):
        serve(TaskNetwork(build_body(tiny_config.model), UnknownHead()))
