import numpy as np
import pytest
import torch

from electra.config.load import load_finetune_config
from electra.errors import ElectraError
from electra.model.bodies import build_body
from electra.model.networks import TaskNetwork
from electra.model.task_model import TaskModel, write_task_model
from electra.recipes.evaluate import ROWS, forward, load_tuned
from electra.tasks.base import Feature
from electra.tasks.build import build_task


@pytest.fixture
def config(tasks_folder):
    return load_finetune_config("glue", ["task=cola", f"data={tasks_folder}", "max_length=16"])


@pytest.fixture
def network(tiny_config, config):
    torch.manual_seed(0)
    encoder, task = build_body(tiny_config.model), build_task(config)
    return TaskNetwork(encoder, task.head(encoder), task.labels, task.problem)


def features(*lengths: int) -> list[Feature[list[float]]]:
    return [Feature(number, [5 + number] * length, [0] * length) for number, length in enumerate(lengths)]


def logits(network, config, tokenizer, *lengths: int) -> np.ndarray:
    outputs = forward(network.eval(), build_task(config), features(*lengths), tokenizer, config)
    return np.stack([output["logits"] for output in outputs])


def test_neither_rows_nor_lengths_are_filled_up(network, config, tokenizer):
    shapes = []
    network.encoder.register_forward_pre_hook(lambda module, inputs: shapes.append(tuple(inputs[0].shape)))
    logits(network, config, tokenizer, *[5] * ROWS, 9, 3, 4)
    assert shapes == [(ROWS, 9), (3, 5)]


def test_an_example_scores_alone_as_among_others(network, config, tokenizer):
    together = logits(network, config, tokenizer, 7, 12, 3)
    np.testing.assert_allclose(logits(network, config, tokenizer, 7), together[:1], rtol=1e-4, atol=1e-5)


COLUMNS = {"kind": "classification", "text": "review"}


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"known": {"columns": COLUMNS}}, "is damaged: 'known' does not describe task table"),
        ({"known": {"columns": {"kind": "classification"}}}, "is damaged: 'known' does not describe task table"),
        ({"known": {"columns": COLUMNS | {"text": ["a"]}, "labels": ["a"]}}, "'known' does not describe task table"),
        ({"known": {"columns": 5}}, "is not the description of a task: known.columns: Input should be"),
        ({"known": 5}, "is not the description of a task: known: Input should be"),
        ({"config": None}, "is not the description of a task: config: Input should be"),
    ],
)
def test_a_damaged_description_of_a_task_is_refused(network, tokenizer, stored, message, tmp_path):
    described = {"name": "table", "config": {"task": "table"}, "known": {}} | stored
    write_task_model(TaskModel(network, tokenizer, described), tmp_path)
    with pytest.raises(ElectraError, match=message):
        load_tuned(tmp_path)


OPTIONS = {"text": "ctx", "pair": "endings"}


@pytest.mark.parametrize(
    ("task", "known"),
    [
        ("table", {"columns": COLUMNS, "labels": ["a", "b"], "learned_texts": 1}),
        ("table", {"columns": COLUMNS, "labels": ["a", "b"], "learned_texts": "x"}),
        ("choice", {"columns": OPTIONS, "reading": "upside down"}),
        ("choice", {"columns": OPTIONS | {"label": ["a"]}}),
        ("squad-2.0", {"null_threshold": 10**400}),
    ],
)
def test_what_a_task_does_not_understand_is_refused_at_once(network, tokenizer, task, known, tmp_path):
    described = {"name": task, "config": {"task": task}, "known": known}
    write_task_model(TaskModel(network, tokenizer, described), tmp_path)
    with pytest.raises(ElectraError, match=f"'known' does not describe task {task}"):
        load_tuned(tmp_path)


@pytest.mark.parametrize(("override", "kept"), [("task=cola", True), ("task=sst-2", False), ("data=other", False)])
def test_stored_files_are_used_for_the_stored_task_and_data_only(network, tokenizer, override, kept, tmp_path):
    described = {"name": "cola", "config": {"task": "cola", "test_file": "own.tsv"}, "known": {}}
    write_task_model(TaskModel(network, tokenizer, described), tmp_path)
    assert load_tuned(tmp_path, [override]).config.test_file == ("own.tsv" if kept else None)


@pytest.mark.gpu  # on a CPU, bf16 products can change how later float32 ones of the process are rounded
def test_bf16_scores_near_float32_and_leaves_the_weights_alone(network, config, tokenizer):
    network = network.to("cuda")
    exact = logits(network, config.model_copy(update={"precision": "float32"}), tokenizer, 7, 12, 3)
    rounded = logits(network, config.model_copy(update={"precision": "bf16"}), tokenizer, 7, 12, 3)
    np.testing.assert_allclose(rounded, exact, atol=0.03)
    assert {weight.dtype for weight in network.parameters()} == {torch.float32}
