import json
from pathlib import Path

import pytest

from electra.config import preset_names
from electra.config.keys import is_set
from electra.config.load import (
    difference,
    dump_config,
    explain,
    gather,
    load_config,
    load_finetune_config,
    text_override,
    validate,
)
from electra.config.objectives import ElectricObjective, MLMObjective, TwoTowerGenerator, UniformGenerator
from electra.config.schema import PretrainConfig
from electra.errors import ConfigError

SIZES = {  # of the paper: layers, hidden, feed-forward, heads, embedding, generator width
    "small": (12, 256, 1024, 4, 128, 64),
    "base": (12, 768, 3072, 12, 768, 256),
    "large": (24, 1024, 4096, 16, 1024, 256),
    "small-plus": (12, 256, 1024, 4, 128, 256),
}
TRAINING = {  # of the paper: learning rate, batch, length, steps, masked share
    "small": (5e-4, 128, 128, 1_000_000, 0.15),
    "base": (2e-4, 256, 512, 766_000, 0.15),
    "large": (2e-4, 2048, 512, 400_000, 0.25),
    "small-plus": (5e-4, 128, 512, 4_000_000, 0.15),
}


@pytest.mark.parametrize("name", preset_names())
def test_every_preset_loads_and_round_trips(name, tmp_path):
    config = load_config(name)
    (tmp_path / "config.toml").write_text(dump_config(config))
    assert load_config(tmp_path / "config.toml") == config
    assert load_config(tmp_path) == config


@pytest.mark.parametrize("name", SIZES)
def test_presets_are_the_papers_models(name):
    config = load_config(name)
    model = config.model
    generator = config.objective.generator.model(model)
    shape = (model.layers, model.hidden_size, model.feed_forward_size, model.heads, model.embedding_size)
    assert (*shape, generator.hidden_size) == SIZES[name]
    assert (generator.layers, generator.heads) == (model.layers, generator.hidden_size // 64)


@pytest.mark.parametrize("name", TRAINING)
def test_presets_are_the_papers_training(name):
    config = load_config(name)
    train = config.train
    expected = (train.learning_rate, train.batch_size, train.length, train.steps, config.objective.mask_fraction)
    assert expected == TRAINING[name]
    assert (train.warmup_steps, train.weight_decay, train.adam_eps, train.clip_norm) == (10_000, 0.01, 1e-6, 1.0)
    assert (config.objective.generator_weight, config.objective.discriminator_weight) == (1.0, 50.0)


@pytest.mark.parametrize("load", [load_config, load_finetune_config])
def test_a_run_in_ones_home_lies_there_and_not_in_a_folder_called_tilde(load, monkeypatch):
    monkeypatch.setenv("HOME", "/home/ann")
    preset = "tiny" if load is load_config else "table"
    assert [load(preset, [f"out={out}"]).out for out in ("~/run", "runs/x/")] == ["/home/ann/run", "runs/x/"]


def test_later_layers_win(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "base"\n[train]\nsteps = 7\nbatch_size = 8\n')
    config = load_config(tmp_path / "mine.toml", ["train.steps=9"])
    assert (config.train.steps, config.train.batch_size, config.train.length) == (9, 8, 512)
    assert config.train.adam_beta1 == 0.9


def test_a_budget_replaces_another():
    train = load_config("small", ["train.hours=2.5"]).train
    assert (train.steps, train.tokens, train.hours) == (None, None, 2.5)


def test_two_budgets_in_one_file_are_refused(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "base"\n[train]\nsteps = 7\nhours = 1.0\n')
    with pytest.raises(ConfigError, match="set one budget out of steps, tokens and hours"):
        load_config(tmp_path / "mine.toml")


def test_one_override_is_no_list_of_letters():
    with pytest.raises(ConfigError, match=r"overrides must be a list: \['train\.steps=3'\]"):
        load_config("small", "train.steps=3")


@pytest.mark.parametrize("budgets", [["train.steps=7", "train.hours=1.0"], ["train.hours=1.0", "train.steps=7"]])
def test_two_budgets_on_one_command_line_are_refused(budgets):
    with pytest.raises(ConfigError, match=r"^train: set one budget out of steps, tokens and hours \(found steps and h"):
        load_config("small", budgets)


def test_of_one_budget_given_twice_the_later_wins():
    assert load_config("small", ["train.steps=7", "train.steps=9"]).train.steps == 9


def test_a_list_of_overrides_goes_over_the_one_before():
    train = load_config("small", ["train.hours=1.0", "train.length=64"], ["train.steps=7"]).train
    assert (train.steps, train.hours, train.length) == (7, None, 64)


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["objective.whole_words=true", "objective.mask_draw=with_replacement"], "whole_words needs mask_draw"),
        (["objective.algorithm=two_stage"], "starts the discriminator from the generator's weights"),
        (["objective.name=electra_15", "objective.prior=0.5"], "prior 0.5 must be below mask_fraction"),
        (["objective.generator.kind=uniform", "objective.algorithm=adversarial"], "trains a masked-LM generator"),
        (["objective.mask_fraction=0.0"], "should be greater than 0"),
        (["train.micro_batch_size=100"], "micro_batch_size 100 does not divide batch_size 128"),
        (["train.start_length=100", "train.length_warmup_steps=9"], "start_length 100 does not divide length 128"),
        (["train.start_length=32"], "start_length and length_warmup_steps go together"),
    ],
)
def test_combinations_that_make_no_sense_are_refused_with_the_reason(overrides, reason):
    with pytest.raises(ConfigError, match=reason):
        load_config("small", overrides)


def test_only_what_the_user_writes_counts_as_set(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "tiny"\n[train]\nlength = 32\n')
    config = load_config(tmp_path / "mine.toml", ["model.vocab_size=8192", "objective.generator.width=0.25"])
    keys = ("train.length", "model.vocab_size", "objective.generator.width")  # the second is as in the preset
    assert [is_set(config, key) for key in keys] == [True] * 3
    assert not any(is_set(load_config("tiny"), key) for key in keys)
    assert not any(is_set(config, key) for key in ("model.max_length", "train.steps", "model.token_types", "data"))


def test_everything_in_the_config_of_a_run_counts_as_set(tmp_path):
    (tmp_path / "config.toml").write_text(dump_config(load_config("tiny")))
    config = load_config(tmp_path)
    assert all(is_set(config, key) for key in ("train.length", "model.vocab_size", "model.token_types"))


def test_explain_says_who_set_a_key(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "base"\n[train]\nsteps = 7\n')
    settings = gather(PretrainConfig, tmp_path / "mine.toml", ["train.batch_size=8"])
    rows = explain(validate(PretrainConfig, settings), settings)
    origins = {key: setting.origin for key, (setting, _) in rows.items()}
    assert origins["train.adam_beta1"] == "default"
    assert origins["train.length"] == "preset base"
    assert origins["train.steps"].endswith("mine.toml")
    assert origins["train.batch_size"] == "command line"
    assert all(help_text for _, help_text in rows.values())


def test_a_preset_that_begins_with_another_has_its_settings():
    settings = gather(PretrainConfig, "quick")
    config = validate(PretrainConfig, settings)
    keys = ("objective.name", "model.feed_forward_size", "objective.generator.sharing", "train.optimizer")
    assert [settings[key].origin for key in keys] == ["preset quick"] * 2 + ["preset modern-12x256"] * 2
    assert not any(is_set(config, key) for key in keys)


def test_a_file_that_begins_with_a_preset_has_the_settings_that_this_begins_with(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "quick"\n')
    assert load_config(tmp_path / "mine.toml") == load_config("quick")


def test_a_file_that_begins_with_an_unknown_preset_is_refused(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "quik"\n')
    with pytest.raises(ConfigError, match=r"mine\.toml: unknown preset 'quik'; choose from base, large, "):
        load_config(tmp_path / "mine.toml")


def test_explain_speaks_of_the_chosen_objective_and_generator():
    settings = gather(PretrainConfig, "small", ["objective.name=corrective", "objective.generator.kind=uniform"])
    rows = explain(validate(PretrainConfig, settings), settings)
    assert rows["objective.name"][1] == "detection plus prediction of the original tokens at masked positions"
    assert rows["objective.generator.kind"][1] == "every token equally likely"


def test_difference_lists_what_differs_and_nothing_else():
    small, other = load_config("small"), load_config("small", ["train.steps=5", "objective.name=mlm"])
    found = difference(small, other)
    assert found["train.steps"] == (1_000_000, 5)
    assert found["objective.generator.width"] == (0.25, None)
    assert "train.batch_size" not in found
    assert difference(small, small) == {}


@pytest.mark.parametrize(
    ("override", "kind"), [("objective.name=mlm", MLMObjective), ("objective.name=electric", ElectricObjective)]
)
def test_another_objective_drops_what_does_not_apply(override, kind):
    assert isinstance(load_config("base", [override]).objective, kind)


def test_another_objective_keeps_what_applies():
    config = load_config("large", ["objective.name=electric"])
    assert config.objective.mask_fraction == 0.25
    assert config.objective.generator == TwoTowerGenerator(width=0.25)


def test_another_generator_drops_the_sizes_of_the_first():
    config = load_config("small", ["objective.generator.kind=uniform"])
    assert config.objective.generator == UniformGenerator()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("train.stpes=5", "unknown config key train.stpes (command line); did you mean train.steps?"),
        ("trian.steps=5", "unknown config key trian.steps (command line); did you mean train.steps?"),
        ("steps=5", "unknown config key steps (command line); did you mean train.steps?"),
        ("train.steps=many", 'train.steps = "many" (command line) should be a valid integer'),
        ("train.steps=1.5", "train.steps = 1.5 (command line) should be a valid integer"),
        ("train.steps=true", "train.steps = true (command line) should be a valid integer"),
        ("train.steps=0", "train.steps = 0 (command line) should be greater than 0"),
        ("model.heads=3", "model: 3 heads do not divide hidden_size 256"),
        ("train.length=1024", "train.length 1024 exceeds model.max_length 512; raise that too"),
        (
            "objective.name=foo",
            "objective.name = \"foo\" (command line) should be one of 'electra', 'mlm', 'electra_15', "
            "'corrective', 'replace_mlm', 'all_tokens_mlm', 'electric'",
        ),
        (
            "objective.generator.sharing=some",
            "objective.generator.sharing = \"some\" (command line) should be 'none', 'embeddings', 'gdes' or 'all'",
        ),
        (
            "objective.generator.sharing=all",
            'objective.generator: sharing = "all" needs networks of equal size: set width=1.0 and depth=1.0',
        ),
        (
            "objective.generator.width=0.9",
            "objective.generator.width=0.9 gives a generator of width 230, which 3 heads (one per 64) do not "
            "divide; use 0.890625 (width 228) or 0.902344 (width 231)",
        ),
        ("train.steps", "'train.steps' is not of the form key=value, such as train.steps=1000"),
    ],
)
def test_a_wrong_override_is_one_line(override, message):
    with pytest.raises(ConfigError) as caught:
        load_config("small", [override])
    assert str(caught.value) == message


def test_a_key_of_another_variant_does_not_apply():
    with pytest.raises(ConfigError, match=r'objective\.temperature does not apply with objective\.name = "mlm"'):
        load_config("small", ["objective.name=mlm", "objective.temperature=2.0"])


def test_an_unknown_preset_is_named():
    with pytest.raises(ConfigError, match="no preset or config file 'smal'; did you mean small"):
        load_config("smal")


def test_broken_toml_names_the_file_and_the_place(tmp_path):
    (tmp_path / "mine.toml").write_text("[train]\nsteps = = 3\n")
    with pytest.raises(ConfigError, match=r"mine\.toml: not valid TOML: .*line"):
        load_config(tmp_path / "mine.toml")


def test_a_file_may_begin_with_the_mark_that_windows_writes(tmp_path):
    (tmp_path / "mine.toml").write_text('preset = "tiny"\nseed = 7\n', encoding="utf-8-sig")
    assert load_config(tmp_path / "mine.toml").seed == 7


def test_a_folder_with_the_name_of_a_preset_is_a_folder_where_it_is_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "quick").mkdir()
    (tmp_path / "quick/config.toml").write_text('preset = "tiny"\nseed = 7\n')
    assert load_config(Path("quick")).seed == 7
    assert load_config("quick").seed == 0


def test_a_missing_key_is_named(tmp_path):
    (tmp_path / "mine.toml").write_text("[train]\nsteps = 5\n")
    with pytest.raises(ConfigError, match="config key model is missing"):
        load_config(tmp_path / "mine.toml")


def test_a_config_is_frozen():
    with pytest.raises(ValueError, match="frozen"):
        load_config("small").train.steps = 5


def test_a_config_is_plain_json():
    assert json.loads(json.dumps(load_config("small").model_dump()))["train"]["steps"] == 1_000_000


@pytest.mark.parametrize("name", ["2024-05-01", "7", "true", 'a "b" \\ c', "über/\u2028\x7f😀", "[1]"])
def test_a_folder_is_text_whatever_its_name_looks_like(name):
    assert load_config("tiny", [text_override("out", name)]).out == name


@pytest.mark.parametrize("name", ["2024-05-01", "7", "true"])
def test_a_folder_on_the_command_line_may_look_like_a_number(name):
    assert load_config("tiny", [f"out={name}"]).out == name
