import pytest

from electra.config import preset_names
from electra.config.load import dump_config, load_finetune_config
from electra.errors import ConfigError

PRESETS = ["base", "choice", "glue", "large", "similarity", "small", "squad", "table", "tagging"]


def test_there_is_a_preset_for_each_family_and_size():
    assert preset_names("finetune") == PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_loads_and_round_trips(name, tmp_path):
    config = load_finetune_config(name, ["task=rte", "seeds=3"])
    (tmp_path / "config.toml").write_text(dump_config(config))
    assert load_finetune_config(tmp_path / "config.toml") == config
    assert load_finetune_config(config.model_dump(exclude_none=True)) == config


@pytest.mark.parametrize(("size", "rate", "decay"), [("small", 3e-4, 0.8), ("base", 1e-4, 0.8), ("large", 5e-5, 0.9)])
def test_the_sizes_are_the_papers(size, rate, decay):
    config = load_finetune_config(size)
    assert (config.learning_rate, config.layer_decay) == (rate, decay)
    assert (config.batch_size, config.warmup_fraction, config.weight_decay) == (32, 0.1, 0.0)


def test_the_users_own_table_gets_the_head_that_can_be_exported():
    heads = {name: load_finetune_config(name).head for name in PRESETS}
    assert [name for name, head in heads.items() if head == "huggingface"] == ["table"]


def test_the_protocol_decides_on_the_seeds():
    assert load_finetune_config("glue").seed_list == [0]
    assert load_finetune_config("glue", ["protocol=paper"]).seed_list == list(range(10))
    assert load_finetune_config("glue", ["seeds=3", "seed=5"]).seed_list == [5, 6, 7]


@pytest.mark.parametrize(
    ("overrides", "reason"),
    [
        (["protocol=paper", "seeds=5"], "protocol = paper is the median of 10 seeds; remove seeds=5"),
        (["protocol=mnli-init", "task=cola"], "protocol = mnli-init is for rte, mrpc, sts-b, not for task = cola"),
        (["protocol=paper", "start=untrained"], "protocol = paper requires start = pretrained; set start=pretrained"),
        (["protocol=paper", "head=huggingface"], "protocol = paper requires head = paper; set head=paper"),
        (
            ["protocol=paper", "early_stopping=2"],
            "protocol = paper does not allow early_stopping; remove early_stopping = 2",
        ),
        (
            ["protocol=paper", "learning_rates=[1e-4]"],
            r"does not allow learning_rates; remove learning_rates = \[0.0001\]",
        ),
        (["sedes=5"], "unknown config key sedes .* did you mean seeds?"),
        (["seeds"], "'seeds' is not of the form key=value, such as seeds=5"),
        (["learning_rates=[0.0]"], "learning_rates"),
        (["learning_rates=[1e-4]", "learning_rate=3e-4"], "learning_rates replaces learning_rate; remove one of them"),
        (["learning_rates=1e-4"], r"learning_rates = 0.0001 \(command line\) should be a list: '\[0.0001\]'"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(overrides, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load_finetune_config("glue", overrides)
    assert "\n" not in str(caught.value)


def test_learning_rates_replace_the_rate_of_a_stored_config():
    config = load_finetune_config({"task": "rte", "learning_rate": 3e-4}, ["learning_rates=[1e-4]"])
    assert (config.learning_rate, config.learning_rates) == (None, [1e-4])
