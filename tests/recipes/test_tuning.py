from dataclasses import replace
from types import SimpleNamespace

import pytest

from electra.config.load import load_config, load_finetune_config
from electra.errors import ConfigError
from electra.model.bodies import build_body
from electra.model.networks import Discriminator
from electra.model.pretrained import Pretrained
from electra.recipes.finetune import TaskLoss
from electra.recipes.tuning import Examples, Tuning, check_pooling, check_types, complete, new_network, with_head
from electra.tasks.base import Feature
from electra.tasks.build import build_task

EXAMPLES = {"mnli": 392_702, "cola": 8551, "rte": 2490, "mrpc": 2 * 3668, "sts-b": 2 * 5749}  # inputs, doubled where so
STEPS = {"mnli": 36_816, "cola": 804, "rte": 780, "mrpc": 690, "sts-b": 3600}


@pytest.fixture
def tuning(tiny_model):
    """A function from a task's name, a number of inputs and further keys to a complete fine-tuning."""

    def make(name, inputs, *overrides):
        config = with_head(load_finetune_config("glue", [f"task={name}", *overrides]), tiny_model)
        task = build_task(config)
        nothing = Examples([], [Feature(0, [1], [0])] * inputs, {})
        whole = complete(config, task, tiny_model.encoder.config)
        return Tuning(whole, task, tiny_model, None, nothing, nothing)

    return make


def test_sentence_vectors_ignore_the_head_of_a_preset_but_not_one_that_is_set(tiny_model):
    for keys, head in (([], None), (["head=paper"], "paper")):
        assert with_head(load_finetune_config("table", ["task=similarity", *keys]), tiny_model).head == head


@pytest.mark.parametrize("name", STEPS)
def test_the_steps_are_the_originals(tuning, name):
    training = tuning(name, EXAMPLES[name]).training
    assert training.steps == STEPS[name]
    assert training.warmup_steps == STEPS[name] // 10


def test_no_warm_up_is_fine(tuning):
    assert tuning("cola", 100, "warmup_fraction=0.0").training.warmup_steps == 0


@pytest.mark.parametrize(
    ("layers", "width", "rate", "decay"),
    [
        (2, 128, 3e-4, 0.8),
        (12, 256, 3e-4, 0.8),
        (12, 768, 1e-4, 0.8),
        (10, 384, 2e-4, 0.8),
        (19, 512, 1.5e-4, 0.9),
        (24, 1024, 5e-5, 0.9),
    ],
)
def test_rate_and_decay_follow_the_size(tiny_config, layers, width, rate, decay):
    shape = tiny_config.model.model_copy(update={"layers": layers, "hidden_size": width})
    config = load_finetune_config("glue", ["task=cola"])
    whole = complete(config, build_task(config), shape)
    assert (whole.learning_rate, whole.layer_decay) == (rate, decay)


@pytest.mark.parametrize(("preset", "rate"), [("small", 3e-4), ("modern-12x256", 6e-4)])
def test_the_modern_body_learns_scores_faster(preset, rate):
    config = load_finetune_config("glue", ["task=sts-b"])
    assert complete(config, build_task(config), load_config(preset).model).learning_rate == rate


@pytest.mark.parametrize(
    ("preset", "keys", "smoothness"),
    [
        ("modern-12x256", ["task=rte"], 1),
        ("modern-12x256", ["task=cola"], 0),
        ("modern-12x256", ["task=rte", "smoothness=0"], 0),
        ("modern-12x256", ["task=rte", "protocol=paper"], 0),
        ("modern-12x256", ["task=rte", "dropout=0.1"], 0),
        ("small", ["task=rte"], 0),
        ("small", ["task=rte", "smoothness=2"], 2),
    ],
)
def test_the_modern_body_learns_few_pairs_smoothly(preset, keys, smoothness):
    config = load_finetune_config("glue", keys)
    assert complete(config, build_task(config), load_config(preset).model).smoothness == smoothness


def test_what_the_user_sets_stays(tuning):
    config = tuning("rte", 10, "epochs=2.0", "learning_rate=1e-3", "layer_decay=1.0", "max_length=8").config
    assert (config.epochs, config.learning_rate, config.layer_decay, config.max_length) == (2.0, 1e-3, 1.0, 8)


def test_inputs_are_cut_to_what_the_model_takes(tuning, tiny_model):
    assert tuning("rte", 10).config.max_length == tiny_model.encoder.config.max_length == 16
    with pytest.raises(ConfigError, match="max_length=32 exceeds the model's maximum of 16 tokens"):
        tuning("rte", 10, "max_length=32")


def test_pairs_need_a_model_that_tells_a_second_text_from_a_first(tiny_model):
    single, pair = Feature(0, [1, 2], [0, 0]), Feature(1, [1, 2], [0, 1])
    one_type = tiny_model.encoder.config.model_copy(update={"token_types": 1})
    check_types([single, pair], tiny_model.encoder.config)
    check_types([single], one_type)
    with pytest.raises(ConfigError, match="pairs of texts, but the model has only token_types=1"):
        check_types([single, pair], one_type)


@pytest.fixture
def rates(tuning, tiny_model):
    """A function from a number of layers and further keys to the learning rate of each parameter."""

    def make(layers, *overrides):
        prepared = tuning("rte", 10, *overrides)
        shape = {"layers": layers, "hidden_size": 8, "heads": 1, "feed_forward_size": 8}
        body = build_body(tiny_model.encoder.config.model_copy(update=shape))
        prepared = replace(prepared, start=Pretrained(Discriminator(body), tiny_model.tokenizer))
        module = TaskLoss(new_network(prepared), prepared)
        base = prepared.config.learning_rate
        return {name: base * module.rate(name) for name, _ in module.named_parameters()}

    return make


@pytest.mark.parametrize(
    ("layers", "rate", "decay", "expected"),
    [
        (12, 1e-4, 0.8, {"embeddings": 4.39805e-6, 0: 5.49756e-6, 5: 1.67772e-5, 11: 6.4e-5, "head": 1e-4}),
        (24, 5e-5, 0.9, {"embeddings": 3.23054e-6, 0: 3.58949e-6, 12: 1.27093e-5, 23: 4.05e-5, "head": 5e-5}),
    ],
)
def test_layer_rates_are_the_originals_and_one_power_up_without_its_slip(rates, layers, rate, decay, expected):
    keys = [f"learning_rate={rate}", f"layer_decay={decay}"]
    ours, theirs = rates(layers, *keys), rates(layers, *keys, "layer_decay_off_by_one=true")
    names = {"embeddings": "encoder.embeddings.words.weight", "head": "head.linear.weight"}
    for part, published in expected.items():
        name = names.get(part, f"encoder.layers.{part}.expand.bias")
        assert theirs[name] == pytest.approx(published, rel=1e-5)
        assert ours[name] == pytest.approx(published if part == "head" else published / decay, rel=1e-5)


def test_the_projection_learns_with_the_embeddings(rates):
    found = rates(2, "learning_rate=1.0", "layer_decay=0.5")
    assert found["encoder.project.weight"] == found["encoder.embeddings.norm.bias"] == 1 / 8


def test_a_tuning_is_complete(tuning):
    left_open = {"task", "model", "data", "out", "train_file", "dev_file", "test_file", "early_stopping"}
    config = tuning("rte", 10).config
    unset = {name for name, value in config if value is None}
    assert unset <= left_open | {"checkpoint_every"}


def test_dropout_is_that_of_pre_training_unless_set(tuning):
    trained = tuning("rte", 10).start.encoder.config.dropout
    for overrides, chance in (([], trained), (["dropout=0.3"], 0.3)):
        prepared = tuning("rte", 10, *overrides)
        shape = new_network(prepared).encoder.config
        assert shape.dropout == shape.attention_dropout == chance


def test_dropout_of_attention_is_that_of_pre_training_too_unless_set(tuning):
    prepared = tuning("rte", 10)
    ours = prepared.start.encoder.config
    other = ours.model_copy(update={"attention_dropout": 0.2})
    open_config = prepared.config.model_copy(update={"dropout": None})
    assert complete(open_config, prepared.task, ours).dropout == ours.dropout
    prepared.start.encoder.config = other
    try:
        whole = complete(open_config, prepared.task, other)
        assert whole.dropout is None  # two chances are no single key's
        assert new_network(replace(prepared, config=whole)).encoder.config == other
        same = new_network(tuning("rte", 10, f"dropout={ours.dropout}")).encoder.config
        assert same.attention_dropout == same.dropout == ours.dropout
    finally:
        prepared.start.encoder.config = ours


def test_a_batch_has_no_more_rows_than_there_are_inputs(tuning):
    assert tuning("cola", 20, "batch_size=1000000").batch_size == 20
    assert tuning("cola", 20, "batch_size=8").batch_size == 8


@pytest.mark.parametrize("preset", ["small", "modern-12x256"])
@pytest.mark.parametrize(
    "keys",
    [
        *([f"task={name}"] for name in ("rte", "cola", "squad-1.1")),
        ["task=rte", "protocol=paper", "head=paper"],
        ["task=cola", "head=paper"],
        ["task=sts-b", "learning_rates=[1e-4, 2e-4]"],
    ],
)
def test_what_is_complete_stays(preset, keys):
    shape = load_config(preset).model
    config = load_finetune_config("glue", keys)
    whole = complete(config, build_task(config), shape)
    assert complete(whole, build_task(whole), shape) == whole


def test_only_predictions_for_whole_texts_can_be_smooth(tiny_config):
    config = load_finetune_config("tagging", ["task=ner", "smoothness=1"])
    with pytest.raises(ConfigError, match="smoothness is for tasks on whole texts, not for ner; drop it"):
        complete(config, SimpleNamespace(name="ner", problem=None), tiny_config.model)


@pytest.mark.parametrize(
    ("shape", "head", "message"),
    [("small", "huggingface", "needs the body modern"), ("modern-12x256", "paper", "needs head=huggingface")],
)
def test_heads_that_read_the_first_token_refuse_the_mean(shape, head, message):
    config = load_finetune_config("glue", ["task=mrpc", f"head={head}", "pooling=mean"])
    with pytest.raises(ConfigError, match=f"pooling=mean {message}"):
        check_pooling(config, load_config(shape).model)
