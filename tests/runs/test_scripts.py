"""The run scripts: valid shell, and `electra` accepts every command in them."""

import subprocess
from pathlib import Path

import pytest

from electra.config.load import load_config, load_finetune_config, load_layers
from electra.recipes.flops import flops
from electra.tasks.build import TASKS

ROOT = Path(__file__).parents[2]
ARGUMENTS = {
    "claim.sh": ["corpus", "glue", "squad", "conll", "out", "0.15"],
    "ablations.sh": ["corpus", "glue", "out", "8_000"],
    "record.sh": ["10", "vocab.txt", "tasks", "out", "a.txt", "b.txt"],
    "embedded.sh": ["out", "1", "a.txt"],
    "slurm.sh": ["base", "data=corpus", "out=runs/base"],
}


def configs(commands: list[list[str]], *overrides: str) -> dict:
    """Return the config of every pre-training run, by the last part of its folder."""
    found = [load_layers(words[1], words[2:], overrides) for words in commands if words[0] == "pretrain"]
    return {Path(config.out).name: config for config in found}


def test_every_script_is_tested():
    assert {path.name for path in (ROOT / "runs").glob("*.sh")} == set(ARGUMENTS)


@pytest.mark.parametrize("script", ARGUMENTS)
def test_a_script_is_valid_shell_and_states_its_rules(script):
    subprocess.run(["sh", "-n", ROOT / "runs" / script], check=True)
    head = (ROOT / "runs" / script).read_text().split("\nset -")[0].splitlines()
    assert head[0] == "#!/bin/sh"
    assert f"runs/{script} " in head[2]
    assert any("Rules" in line for line in head)


@pytest.mark.parametrize("script", ARGUMENTS)
def test_every_command_of_a_script_is_valid(script, recorded):
    commands = recorded(script, *ARGUMENTS[script])
    assert configs(commands)
    for command in commands:
        if command[0] == "glue":
            tasks = [command[place + 1] for place, word in enumerate(command) if word == "--task"]
            assert set(tasks) <= set(TASKS)
            for word in command:
                if "=" in word:
                    load_finetune_config("glue", [word.removeprefix(f"{word.partition('.')[0]}.")])


@pytest.mark.parametrize("script", ["claim.sh", "ablations.sh", "record.sh"])
def test_settings_override_those_of_the_script(script, recorded):
    for config in configs(recorded(script, *ARGUMENTS[script], SETTINGS="seed=7 log.every=3")).values():
        assert (config.seed, config.log.every) == (7, 3)


@pytest.mark.parametrize("preset", ["quick", "small"])
def test_the_claim_compares_equal_encoders_for_equal_hours(recorded, preset):
    found = configs(recorded("claim.sh", *ARGUMENTS["claim.sh"], PRESET=preset))
    electra, bert = found["electra"], found["bert"]
    assert electra.train.optimizer == load_config(preset).train.optimizer
    assert (electra.objective.name, bert.objective.name) == (load_config(preset).objective.name, "mlm")
    assert electra.model == bert.model
    assert electra.train == bert.train
    assert electra.train.hours == 0.15


def test_the_ablations_have_equal_steps_and_different_objectives(recorded):
    commands = recorded("ablations.sh", *ARGUMENTS["ablations.sh"])
    found = configs(commands)
    assert {config.train.steps for config in found.values()} == {8000}
    assert len({config.objective.model_dump_json() for config in found.values()}) == len(found) == 18
    assert sum(command[0] == "glue" for command in commands) == len(found)


def test_an_ablation_that_fails_is_named_and_does_not_stop_the_others(recorded):
    with pytest.raises(subprocess.CalledProcessError) as failure:
        recorded("ablations.sh", *ARGUMENTS["ablations.sh"], FAIL="out=out/unigram")
    assert failure.value.stderr.endswith("failed: unigram \n")


def test_the_record_is_within_its_size_limit_and_leaves_time_for_scoring(recorded):
    commands = recorded("record.sh", *ARGUMENTS["record.sh"])
    (config,) = configs(commands).values()
    assert 0.1 < config.train.hours <= 520 / 3600  # the six fine-tunings take 70 s
    (longer,) = configs(recorded("record.sh", "20", *ARGUMENTS["record.sh"][1:3], "more", "a.txt")).values()
    assert 0.2 < longer.train.hours <= 960 / 3600
    (config,) = configs(commands, "train.steps=1").values()
    small = flops(load_config("small")).parameters["discriminator"]
    assert flops(config).parameters["discriminator"] <= small


def test_a_record_that_continues_keeps_its_hours_and_adds_up_its_seconds(recorded, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "hours").write_text("0.05")
    (tmp_path / "out" / "seconds").write_text("100")
    commands = recorded("record.sh", "20", "vocab.txt", "tasks", str(tmp_path / "out"), "a.txt")
    assert [config.train.hours for config in configs(commands).values()] == [0.05]
    assert 100 <= int((tmp_path / "out" / "seconds").read_text()) < 160
