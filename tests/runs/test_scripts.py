"""The run scripts: valid shell, and `electra` accepts every command in them."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from electra.config.load import load_config, load_finetune_config
from electra.data.files import write_json
from electra.recipes.flops import flops
from electra.tasks.build import TASKS

ROOT = Path(__file__).parents[2]
ARGUMENTS = {
    "claim.sh": ["electra", "5", "0", "vocab.txt", "tasks", "out", "a.txt", "b.txt"],
    "ablations.sh": ["corpus", "glue", "out", "8_000"],
    "record.sh": ["10", "vocab.txt", "tasks", "out", "a.txt", "b.txt"],
    "embedded.sh": ["out", "1", "a.txt"],
    "slurm.sh": ["base", "data=corpus", "out=runs/base"],
}
SHELLS = [shell for shell in ("dash", "bash") if shutil.which(shell)]  # what `sh` usually is


def configs(commands: list[list[str]], *overrides: str) -> dict:
    """Return the config of every pre-training run, by its folder."""
    found = [load_config(words[1], words[2:], overrides) for words in commands if words[0] == "pretrain"]
    return {config.out: config for config in found}


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
                    task = next((task for task in TASKS if word.startswith(f"{task}.")), "")
                    load_finetune_config("glue", [word.removeprefix(f"{task}.")])


@pytest.mark.parametrize("script", ["claim.sh", "ablations.sh", "record.sh"])
def test_settings_override_those_of_the_script(script, recorded):
    for config in configs(recorded(script, *ARGUMENTS[script], SETTINGS="seed=7 log.every=3")).values():
        assert (config.seed, config.log.every) == (7, 3)


def claim(recorded, model: str, budget: str) -> tuple[list, list[list[str]]]:
    """Return the configs of the pre-training runs of a call, and its fine-tuning commands without the model's name."""
    commands = recorded("claim.sh", model, budget, *ARGUMENTS["claim.sh"][2:])
    tuned = [[word.replace(f"out/{model}-", "out/") for word in words] for words in commands if words[0] == "glue"]
    return list(configs(commands).values()), tuned


@pytest.mark.parametrize("budget", ["search", "0", "5", "20"])
def test_the_claim_treats_both_models_the_same_except_for_objective_and_rate(recorded, budget):
    (electra, electra_tuned), (bert, bert_tuned) = (claim(recorded, model, budget) for model in ("electra", "bert"))
    differs = {"out": True, "objective": True, "train": {"learning_rate"}}
    assert [each.model_dump(exclude=differs) for each in electra] == [each.model_dump(exclude=differs) for each in bert]
    assert electra_tuned == bert_tuned
    assert all(each.objective == load_config("quick").objective for each in electra)
    assert all(each.objective.name == "mlm" for each in bert)


def test_the_claim_searches_the_same_rates_for_both_and_trains_for_minutes(recorded):
    (electra, _), (bert, _) = (claim(recorded, model, "search") for model in ("electra", "bert"))
    rates = [each.train.learning_rate for each in electra]
    assert rates == [each.train.learning_rate for each in bert]
    assert len(set(rates)) == 3
    beyond = configs(recorded("claim.sh", "bert", "search", *ARGUMENTS["claim.sh"][2:], RATES="1e-3 16e-3"))
    assert [config.train.learning_rate for config in beyond.values()] == [1e-3, 16e-3]
    for minutes in (5, 20):
        ((config,), _) = claim(recorded, "electra", str(minutes))
        assert config.train.hours == pytest.approx(minutes / 60, rel=1e-4)
        assert config.train.learning_rate in rates


def test_zero_minutes_score_the_untrained_network(recorded):
    ((config,), commands) = claim(recorded, "electra", "0")
    assert config.train.steps == 1
    assert all("start=untrained" in command for command in commands)


def test_the_other_seeds_of_an_untrained_network_are_fine_tuned_with_the_rates_of_the_first(recorded, tmp_path):
    first, second = (["electra", "0", seed, "vocab.txt", "tasks", str(tmp_path), "a.txt"] for seed in "01")
    (tmp_path / "electra-0-0/tuned/cola").mkdir(parents=True)
    write_json(tmp_path / "electra-0-0/tuned/cola/results.json", {"learning_rate": 1e-4, "seeds": []})
    recorded("claim.sh", *first)
    (*_, tuned) = recorded("claim.sh", *second)
    assert [word for word in tuned if "rate" in word] == ["cola.learning_rate=0.0001"]


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
    assert 0.1 < config.train.hours <= 520 / 3600  # the six fine-tunings take 73 s
    more = recorded("record.sh", "20", *ARGUMENTS["record.sh"][1:3], "more", "a.txt")
    (longer,) = configs(more).values()
    assert 0.2 < longer.train.hours <= 1010 / 3600  # 180 s, with smoothness
    assert [command.count("cola.smoothness=1") for command in more if command[0] == "glue"] == [1, 1, 0]
    (config,) = configs(commands, "train.steps=1").values()
    small = flops(load_config("small")).parameters["discriminator"]
    assert flops(config).parameters["discriminator"] <= small


def test_the_record_of_twenty_minutes_can_be_run_with_bert(recorded):
    arguments = ["20", *ARGUMENTS["record.sh"][1:]]
    ours, bert = (
        next(iter(configs(recorded("record.sh", *arguments, SETTINGS=f"seed=1 {objective}")).values()))
        for objective in ("", "objective.name=mlm")
    )
    assert (ours.objective.name, bert.objective.name) == ("corrective", "mlm")
    assert ours.model_copy(update={"objective": bert.objective}) == bert


def test_a_record_that_continues_keeps_its_hours_and_adds_up_its_seconds(recorded, tmp_path):
    out = tmp_path / "out"
    (out / "run").mkdir(parents=True)
    (out / "hours").write_text("0.05")
    (out / "seconds").write_text("100")
    commands = recorded("record.sh", "20", "vocab.txt", "tasks", str(out), "a.txt")
    assert [config.train.hours for config in configs(commands).values()] == [0.05]
    assert 100 <= int((out / "seconds").read_text()) < 160
    (out / "seconds").write_text("700")
    again = recorded("record.sh", "20", "vocab.txt", "tasks", str(out), "a.txt")
    assert [words[0] for words in again] == ["evaluate", "glue"]  # what does not count is not counted when repeated
    assert (out / "seconds").read_text() == "700"


@pytest.fixture
def started(tmp_path) -> Callable[..., subprocess.Popen[bytes]]:
    """Start a script with an `electra` that takes 3 s, or 2 s to save its work once it is stopped."""
    (tmp_path / "bin").mkdir()
    electra = tmp_path / "bin" / "electra"
    electra.write_text("""#!/bin/sh
case " $* " in *" --dry-run "*) exit ;; esac
trap 'sleep 2; touch saved; exit 143' INT TERM
touch busy
sleep 3
""")
    electra.chmod(0o755)
    for task in ("glue", "squad-1.1", "conll2000", "blimp"):
        (tmp_path / "tasks" / task).mkdir(parents=True)

    def start(shell: str, script: str) -> subprocess.Popen[bytes]:
        command = [shell, ROOT / "runs" / script, *ARGUMENTS[script]]
        path = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        process = subprocess.Popen(command, cwd=tmp_path, env=os.environ | path, start_new_session=True)
        until(lambda: (tmp_path / "busy").exists())
        return process

    return start


def until(happened: Callable[[], bool]) -> None:
    """Wait for something that takes a few seconds at most."""
    end = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


STOPS = {  # signal, and how it is sent: to the script and what it runs, or to the script only
    "Ctrl-C": (signal.SIGINT, os.killpg),
    "TERM": (signal.SIGTERM, os.killpg),
    "TERM to the script": (signal.SIGTERM, os.kill),
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("shell", SHELLS)
def test_all_seconds_of_a_stopped_record_count_until_its_command_has_ended(started, tmp_path, shell, stop):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "seconds").write_text("100")
    began = time.time()
    process = started(shell, "record.sh")
    number, send = STOPS[stop]
    send(process.pid, number)
    assert process.wait() == 143
    took = time.time() - began
    assert took >= 2
    assert 99 + took <= int((tmp_path / "out" / "seconds").read_text()) <= 101 + took


@pytest.mark.parametrize("shell", SHELLS)
def test_a_stopped_claim_waits_until_its_command_has_saved(started, tmp_path, shell):
    process = started(shell, "claim.sh")
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait() == 143
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize("shell", SHELLS)
def test_the_seconds_of_a_killed_record_count_until_then(started, tmp_path, shell):
    process = started(shell, "record.sh")
    seconds = tmp_path / "out" / "seconds"
    until(lambda: seconds.is_file() and int(seconds.read_text()) >= 1)
    os.kill(process.pid, signal.SIGKILL)  # a zombie until someone waits for it
    time.sleep(1.2)
    counted = seconds.read_text()
    time.sleep(1.2)
    assert seconds.read_text() == counted
    process.wait()


@pytest.mark.parametrize(
    ("script", "arguments", "said"),
    [
        ("record.sh", ["10", "vocab.txt"], "usage: runs/record.sh"),
        ("record.sh", ["15", "vocab.txt", "tasks", "out", "a.txt"], "the first argument is 10 or 20, not 15"),
        ("record.sh", ["10", "vocab.txt", "none", "out", "a.txt"], "no folder none/glue"),
        ("claim.sh", ["bert"], "usage: runs/claim.sh"),
        ("claim.sh", ["roberta", "5", "0", "vocab.txt", "tasks", "out", "a.txt"], "electra or bert, not roberta"),
        ("claim.sh", ["bert", "5min", "0", "vocab.txt", "tasks", "out", "a.txt"], "number of minutes, not 5min"),
        ("claim.sh", ["bert", "5", "-1", "vocab.txt", "tasks", "out", "a.txt"], "a seed, a whole number, not -1"),
        ("claim.sh", ["bert", "5", "0", "vocab.txt", "none", "out", "a.txt"], "no folder none/glue"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_runs(recorded, script, arguments, said):
    with pytest.raises(subprocess.CalledProcessError) as failure:
        recorded(script, *arguments)
    assert failure.value.returncode == 2
    assert failure.value.stderr.startswith(f"{script}: ")
    assert said in failure.value.stderr


@pytest.mark.parametrize("script", ["claim.sh", "record.sh"])
def test_the_settings_of_fine_tuning_are_checked_before_training(recorded, script):
    check, *training, tuned = recorded(script, *ARGUMENTS[script], TUNING="batch_size=16")[:4]
    assert [words[0] for words in training] == ["corpus", "pretrain"]
    rates = "learning_rates="  # of a claim's first seed
    assert check == ["glue", "embedded", "--dry-run", *(word for word in tuned[2:] if rates not in word)]
    assert "batch_size=16" in check


def test_a_claim_can_leave_the_scoring_to_a_later_call(recorded):
    everything = recorded("claim.sh", *ARGUMENTS["claim.sh"])
    assert recorded("claim.sh", *ARGUMENTS["claim.sh"], ONLY="pretrain") == everything[:-1]
    with pytest.raises(subprocess.CalledProcessError) as failure:
        recorded("claim.sh", *ARGUMENTS["claim.sh"], ONLY="train")
    assert failure.value.stderr == "claim.sh: ONLY is pretrain or not set, not train\n"


def test_the_other_seeds_of_a_claim_repeat_the_updates_and_the_fine_tuning_rates_of_the_first(recorded, tmp_path):
    first, second = (["bert", "5", seed, "vocab.txt", "tasks", str(tmp_path), "a.txt"] for seed in "01")
    with pytest.raises(subprocess.CalledProcessError) as failure:
        recorded("claim.sh", *second)
    assert failure.value.stderr == f"claim.sh: no {tmp_path}/bert-5.updates: call it with seed 0 first\n"
    run = tmp_path / "bert-5-0/run"
    run.mkdir(parents=True)
    (run / "metrics.jsonl").write_text("".join(json.dumps({"step": step, "loss": 1.0}) + "\n" for step in (500, 731)))
    recorded("claim.sh", *first, ONLY="pretrain")
    (config,) = configs(recorded("claim.sh", *second, ONLY="pretrain")).values()
    assert (config.train.steps, config.train.hours) == (731, None)
    with pytest.raises(subprocess.CalledProcessError) as failure:
        recorded("claim.sh", *second)
    assert failure.value.stderr == f"claim.sh: no {tmp_path}/bert-5.rates: call it with seed 0 first\n"
    for rate, task in [(1e-4, "cola"), (3e-5, "squad-1.1")]:
        (tmp_path / f"bert-5-0/tuned/{task}").mkdir(parents=True)
        results = {"learning_rate": rate, "seeds": [{"seed": 0}], "sweep": {"0.0001": {"accuracy": 0.5}}}
        write_json(tmp_path / f"bert-5-0/tuned/{task}/results.json", results)
    recorded("claim.sh", *first)
    (*_, tuned) = recorded("claim.sh", *second)
    assert [word for word in tuned if "rate" in word] == ["cola.learning_rate=0.0001", "squad-1.1.learning_rate=3e-05"]


@pytest.mark.parametrize("copied", [True, False])  # what the call was started with, too
def test_a_claim_scores_a_model_that_was_trained_elsewhere(recorded, tmp_path, copied):
    arguments = ["bert", "5", "0", "vocab.txt", "tasks", "OUT", "a.txt"]
    here, there = tmp_path / "here", tmp_path / "there"
    recorded("claim.sh", *(word.replace("OUT", str(there)) for word in arguments))
    (here / "bert-5-0/run/model").mkdir(parents=True)
    if copied:
        shutil.copy(there / "bert-5-0.call", here)
    commands = recorded("claim.sh", *(word.replace("OUT", str(here)) for word in arguments))
    assert [words[0] for words in commands] == ["glue"]


@pytest.mark.parametrize(
    ("script", "arguments", "environment"),
    [
        ("record.sh", "10 v.txt tasks OUT a.txt", {"SETTINGS": "seed=1"}),
        ("record.sh", "10 v.txt tasks OUT a.txt", {"TUNING": "batch_size=16"}),
        ("record.sh", "10 v.txt tasks OUT a.txt", {"RESERVE": "100"}),
        ("record.sh", "20 v.txt tasks OUT a.txt", {}),
        ("record.sh", "10 other.txt tasks OUT a.txt", {}),
        ("record.sh", "10 v.txt tasks OUT b.txt", {}),
        ("claim.sh", "bert search 0 v.txt tasks OUT a.txt", {"SETTINGS": "train.clip_norm=2"}),
        ("claim.sh", "bert search 0 v.txt tasks OUT a.txt", {"TUNING": "batch_size=16"}),
        ("claim.sh", "bert search 1 v.txt tasks OUT a.txt", {}),
        ("claim.sh", "bert search 0 v.txt tasks OUT b.txt", {}),
    ],
)
def test_another_call_with_the_same_out_is_refused(recorded, tmp_path, script, arguments, environment):
    first = {"record.sh": "10 v.txt tasks OUT a.txt", "claim.sh": "bert search 0 v.txt tasks OUT a.txt"}[script]
    same, other = (words.replace("OUT", str(tmp_path)).split() for words in (first, arguments))
    with pytest.raises(subprocess.CalledProcessError):
        recorded(script, *other, FAIL="log.every=500", **environment)  # may be corrected, as nothing was trained
    recorded(script, *same)
    for run in ("run", "bert-search-2e-3/run"):
        (tmp_path / run / "model").mkdir(parents=True)
    assert recorded(script, *same)
    with pytest.raises(subprocess.CalledProcessError) as failure:
        recorded(script, *other, **environment)
    (line,) = failure.value.stderr.splitlines()
    assert line.startswith(f"{script}: {tmp_path}")
    assert "was started as" in line
