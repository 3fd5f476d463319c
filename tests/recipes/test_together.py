"""Fine-tunings at the same time, each seed in a process of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

import electra
from electra.data.subprocesses import start_module
from electra.errors import CheckpointError, ConfigError, TaskError
from electra.recipes.finetune import finetune_part
from electra.recipes.glue import plan_suite
from electra.recipes.parts import Part, in_parts
from electra.recipes.together import Planned, finetune_together
from electra.training.run import held

QUICK = "epochs=0.5 batch_size=8 learning_rate=2e-3 layer_decay=1.0 optimizer=adamw".split()
RATES = ["learning_rates=[1e-3, 2e-3]", *(key for key in QUICK if not key.startswith("learning_rate"))]
START = "electra.recipes.worker.start_module"


@pytest.fixture
def planned(tmp_path):
    """A function from tasks and the number of their seeds to fine-tunings that were planned."""

    def plan(**tasks):
        found = {}
        for name, seeds in tasks.items():
            keys = [f"task={name}", f"seeds={seeds}", f"out={tmp_path / name}", "epochs=1", "max_length=128"]
            found[name] = Planned(electra.load_finetune_config("glue", keys), 10, 5)
        return found

    return plan


@pytest.fixture
def ready(monkeypatch):
    """A function that lets workers say that they are done, except with a failing part, and returns what they do.

    What they do first can be given.
    """
    monkeypatch.setattr("electra.recipes.together.describe", lambda results: "done")

    def use(failing=None, first=lambda request: None):
        parts = []

        class Ready:
            def __init__(self, threads):
                self.stop = self.close = lambda: None

            def ask(self, request, warn):
                first(request)
                parts.append(request.part)
                if request.part and request.part == failing:
                    warn(f"seed {request.part.seed}: late")
                    raise TaskError("no rest")
                return {} if request.part else {"task": request.config.task}

        monkeypatch.setattr("electra.recipes.together.Worker", Ready)
        return parts

    return use


def test_tasks_and_seeds_trained_together_have_the_same_scores_as_one_by_one(
    tiny_folder, tasks_folder, tmp_path, monkeypatch
):
    keys, tasks = [*QUICK, "sst-2.seeds=2"], ["sst-2", "mnli"]
    alone = electra.glue(tiny_folder, tasks_folder, tmp_path / "alone", keys, tasks)
    monkeypatch.delattr("electra.recipes.glue.finetune")  # only other processes may call it
    heard, started = [], []
    monkeypatch.setattr(START, lambda *name, **settings: started.append(name) or start_module(*name, **settings))
    found = electra.glue(tiny_folder, tasks_folder, tmp_path / "together", keys, tasks, [heard.append], together=2)
    assert found.scores == alone.scores
    assert len(started) == 2  # for two seeds, what is left of their task, and another task
    assert sorted(record["detected"].split(":")[0] for record in heard if "detected" in record) == ["mnli", "sst-2"]


def test_the_learning_rates_of_one_task_give_the_same_results_and_model(
    tiny_folder, tasks_folder, tmp_path, without_clock
):
    keys = [*RATES, "task=sst-2", f"model={tiny_folder}", f"data={tasks_folder}"]
    configs = [electra.load_finetune_config("glue", [*keys, f"out={tmp_path / out}"]) for out in ("alone", "shared")]
    heard = []
    alone, shared = electra.finetune(configs[0]), electra.finetune(configs[1], [heard.append], together=2)
    assert without_clock(shared) == without_clock(alone)
    said = [record["detected"] for record in heard if "is done" in record.get("detected", "")]
    assert sorted(said) == [f"seed 0 with learning rate {rate} is done" for rate in ("0.001", "0.002")]
    assert not any("step" in record for record in heard)
    models = [(tmp_path / out / "model/model.safetensors").read_bytes() for out in ("alone", "shared")]
    assert models[0] == models[1]


def test_seeds_of_long_tasks_come_first(planned, ready):
    parts = ready()
    tasks = planned(rte=2, cola=3, mrpc=1)
    tasks |= {"cola": replace(tasks["cola"], train=100), "mrpc": replace(tasks["mrpc"], train=1)}
    assert finetune_together(tasks, dict, 1, []) == [{"task": "rte"}, {"task": "cola"}, {"task": "mrpc"}]
    assert parts == [(0, 0), (0, 1), (0, 2), (0, 0), (0, 1), None, None, None]


def test_a_task_is_finished_while_others_train(planned, ready):
    finished = threading.Event()

    def wait_for_rte(request):
        assert request.config.task == "rte" or finished.wait(10)

    ready(first=wait_for_rte)
    tasks = planned(rte=1, mrpc=1)
    assert finetune_together(tasks, lambda results: finished.set() or results["task"], 2, []) == ["rte", "mrpc"]


def test_a_stop_does_not_wait_for_tasks_that_are_queued_to_be_finished(planned, ready):
    finished = []

    def finish(results):
        finished.append(results["task"])
        time.sleep(0.5)  # another task is done meanwhile, and one trains
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.5)

    ready(first=lambda request: time.sleep(2 if request.config.task == "mrpc" else 0))
    with pytest.raises(KeyboardInterrupt):
        finetune_together(planned(rte=1, cola=1, mrpc=1), finish, 3, [])
    assert len(finished) == 1


def test_a_seed_that_fails_is_named_at_once_and_the_others_go_on(planned, ready):
    parts = ready(failing=Part(0, 1))
    heard = []
    with pytest.raises(TaskError, match=r"^rte, seed 1: no rest$"):
        finetune_together(planned(rte=3, mrpc=1), dict, 1, [heard.append])
    assert parts == [(0, 0), (0, 1), (0, 2), None]  # of rte there is nothing else to do
    assert heard == [{"warning": "rte, seed 1: late"}, {"warning": "rte, seed 1: no rest"}, {"detected": "done"}]


def test_a_folder_that_cannot_be_locked_stops_no_other_task(planned, ready, tmp_path):
    ready()
    (tmp_path / "rte").write_text("in the way")
    heard = []
    with pytest.raises(TaskError, match=r"^rte: .*rte is a file; choose another out"):
        finetune_together(planned(rte=2, mrpc=1), dict, 2, [heard.append])
    assert heard[-1] == {"detected": "done"}


def test_a_failure_names_seed_and_rate():
    config = electra.load_finetune_config("glue", ["learning_rates=[1e-3, 2e-3]"])
    assert Part(1, 5).describe(config) == "seed 5 with learning rate 0.002"


def test_a_run_in_object_storage_has_no_parts_since_one_process_uploads_it(planned, tmp_path):
    config = planned(rte=3)["rte"].config
    with in_parts(config.model_copy(update={"out": f"file://{tmp_path}/bucket"})) as parts:
        assert parts == []


def test_together_is_for_one_machine(tiny_folder, tasks_folder, tmp_path):
    with pytest.raises(ConfigError, match=r"^together is for one machine; drop it, or cluster$"):
        electra.glue(tiny_folder, tasks_folder, tmp_path / "suite", together=2, cluster="auto")


def test_seeds_that_are_done_are_not_repeated(planned, tmp_path):
    config = planned(rte=3)["rte"].config
    with in_parts(config) as parts:
        assert parts == [Part(0, 0), Part(0, 1), Part(0, 2)]
    result = tmp_path / "rte/seeds/1/result.json"
    result.parent.mkdir(parents=True)
    result.touch()
    with in_parts(config) as parts:
        assert parts == [Part(0, 0), Part(0, 2)]


def test_no_other_command_writes_to_the_folder_meanwhile(planned, tiny_folder, tasks_folder, tmp_path):
    keys = [f"model={tiny_folder}", f"data={tasks_folder}", "seeds=2"]
    task = plan_suite(str(tiny_folder), [str(tasks_folder)], tmp_path, keys, ["rte"]).tasks["rte"]
    with in_parts(task.config), pytest.raises(CheckpointError, match=r"^another process is training .*rte; wait"):
        electra.finetune(task.config)


def test_a_seed_that_a_killed_command_left_running_is_not_trained_twice(planned, tiny_folder, tasks_folder, tmp_path):
    keys = [f"model={tiny_folder}", f"data={tasks_folder}"]
    task = plan_suite(str(tiny_folder), [str(tasks_folder)], tmp_path, keys, ["rte"]).tasks["rte"]
    with (
        held(tmp_path / "rte/seeds/0"),
        pytest.raises(CheckpointError, match=r"^another process is training .*seeds/0; wait"),
    ):
        finetune_part(task.config, Part(0, 0), [])


@pytest.mark.parametrize(
    ("cores", "together", "done", "share"),
    [(16, 100, 0, 2), (16, 4, 0, 4), (16, 100, 5, 4), (2, 6, 0, 1), (1, 2, 0, 1)],
)
def test_the_seeds_that_are_left_share_the_cores(cores, together, done, share, planned, monkeypatch, tmp_path):
    asked, tasks = [], planned(rte=3, cola=5)
    with in_parts(tasks["cola"].config):
        pass  # begins the run
    for seed in range(done):
        folder = tmp_path / f"cola/seeds/{seed}"
        folder.mkdir(parents=True)
        (folder / "result.json").touch()
    for module in ("together", "worker"):
        monkeypatch.setattr(f"electra.recipes.{module}.available_cores", lambda: cores)

    def start(*arguments, threads, tokenizing, **settings):
        asked.append((threads, tokenizing))
        raise TaskError("enough")

    monkeypatch.setattr(START, start)
    with pytest.raises(TaskError, match="enough"):
        finetune_together(tasks, dict, together, [])
    assert asked == [(share, cores)] * (4 if done else 8)


def test_a_process_that_starts_during_a_stop_is_stopped_too(planned, monkeypatch):
    begun = []

    def start(*arguments, threads, tokenizing, **settings):
        time.sleep(0.5)  # the pool does not wait for a thread if the signal interrupts `submit`, which started it
        signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        time.sleep(0.5)  # the stop comes before anyone knows of this process
        begun.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"], **settings))
        return begun[0]

    monkeypatch.setattr(START, start)
    with pytest.raises(KeyboardInterrupt):
        finetune_together(planned(rte=1), dict, 1, [])
    assert begun[0].returncode == -signal.SIGTERM


@pytest.mark.slow
def test_a_task_that_fails_among_others_is_named(tiny_folder, tasks_folder, tmp_path):
    heard, keys = [], [*QUICK, "mnli.learning_rate=1e30", "mnli.clip_norm=1e30"]
    with pytest.raises(TaskError, match=r"^mnli: the loss was not finite at the end, step \d+: lower learning_rate"):
        electra.glue(str(tiny_folder), [str(tasks_folder)], tmp_path, keys, (), [heard.append], together=2)
    assert any(record.get("warning", "").startswith("mnli: the loss was not finite") for record in heard)
    assert (tmp_path / "sst-2/results.json").is_file()  # the other task was not stopped


@pytest.mark.slow
def test_seeds_stop_on_a_signal(tiny_folder, tasks_folder, tmp_path):
    places = ["--data", tasks_folder, "--out", tmp_path / "out"]
    keys = ["epochs=10_000.0", "checkpoint_every=20", "seeds=2"]
    command = ["-m", "electra", "glue", tiny_folder, *keys, *places, "--together", "2", "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [sys.executable, *map(str, command)], env=environment, text=True, stderr=subprocess.PIPE
    ) as process:
        patience = time.monotonic() + 600
        while len(list((tmp_path / "out").glob("*/seeds/*/checkpoints/step-*[1-9]*"))) < 2:
            assert time.monotonic() < patience, process.kill()
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.terminate()  # only this process, not its group
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 128 + signal.SIGTERM
    assert errors.splitlines()[-1] == "electra: stopped; run the same command again"
