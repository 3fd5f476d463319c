import sys
from types import SimpleNamespace

import pytest

from electra.config.schema import LogConfig
from electra.errors import ConfigError
from electra.training.trackers import trackers


@pytest.mark.parametrize(("key", "package"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_tracker_names_the_extra_to_install(key, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"log\.{key} needs an extra: pip install '\.\[track\]' in the checkout"):
        trackers(tmp_path, LogConfig(**{key: True}))


def test_runs_of_the_same_name_are_separate_in_weights_and_biases_and_each_resumes(tmp_path, monkeypatch):
    ids = []
    fake = SimpleNamespace(init=lambda **settings: ids.append(settings["id"]))
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for name in ("a/run", "b/run", "a/run"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        trackers(tmp_path / name, LogConfig(wandb=True))
    assert ids[0] == ids[2] != ids[1]


def test_two_stages_in_one_process_are_two_runs_in_weights_and_biases(tmp_path, monkeypatch):
    runs = []

    def init(*, name, reinit="return_previous", **settings):
        """As in wandb: a second call in a process returns the run of the first unless told otherwise."""
        if not runs or reinit == "create_new":
            logged = []
            runs.append((name, logged, SimpleNamespace(log=lambda record, step: logged.append(step))))
        return runs[-1][2]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, log=lambda *record, **step: None))
    (tmp_path / "run/first_stage").mkdir(parents=True)
    (last,), (first,) = (trackers(tmp_path / name, LogConfig(wandb=True)) for name in ("run", "run/first_stage"))
    first({"step": 5, "loss": 1.0})
    last({"step": 1, "loss": 2.0})
    assert [(name, steps) for name, steps, _ in runs] == [("run", [1]), ("first_stage", [5])]


def test_steps_that_a_resumed_run_repeats_are_dropped_from_tensorboard(tmp_path, monkeypatch):
    seen = []

    class Writer:
        def __init__(self, folder, purge_step):
            seen[:] = [(name, step) for name, step in seen if step < purge_step]

        def add_scalar(self, name, value, step):
            seen.append((name, step))

        def flush(self):
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    for steps in ((1, 2, 3), (3, 4)):  # resumed after step 2
        (log,) = trackers(tmp_path, LogConfig(tensorboard=True))
        log({"step": 0, "detected": "a checkpoint"})
        for step in steps:
            log({"step": step, "loss": 1.0})
    assert seen == [("loss", step) for step in (1, 2, 3, 4)]
