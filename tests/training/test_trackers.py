import sys
from types import SimpleNamespace

import pytest

from electra.config.schema import LogConfig
from electra.errors import ConfigError
from electra.training.run import Run, read_records
from electra.training.trackers import trackers


@pytest.mark.parametrize(("key", "package"), [("tensorboard", "torch.utils.tensorboard"), ("wandb", "wandb")])
def test_a_missing_tracker_names_the_extra_to_install(key, package, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ConfigError, match=rf"log\.{key} needs an extra: pip install '\.\[track\]' in the checkout"):
        trackers(tmp_path, LogConfig(**{key: True}))


def test_runs_of_the_same_name_are_separate_in_weights_and_biases_and_each_resumes(tmp_path, monkeypatch):
    ids = []

    def init(**settings):
        ids.append(settings["id"])
        return SimpleNamespace(log=None, define_metric=lambda name, step_metric: None)

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
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
            run = SimpleNamespace(log=logged.append, define_metric=lambda name, step_metric: None)
            runs.append((name, logged, run))
        return runs[-1][2]

    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init, log=lambda *record, **step: None))
    (tmp_path / "run/first_stage").mkdir(parents=True)
    (last,), (first,) = (trackers(tmp_path / name, LogConfig(wandb=True)) for name in ("run", "run/first_stage"))
    first(-1)({"step": 5, "loss": 1.0})
    last(-1)({"step": 1, "loss": 2.0})
    steps = [(name, [record["step"] for record in logged]) for name, logged, _ in runs]
    assert steps == [("run", [1]), ("first_stage", [5])]


def test_weights_and_biases_keeps_the_records_of_a_step_that_it_has_seen(tmp_path, monkeypatch):
    steps, kept, axes = [0], [], {}

    def log(record, step=None):
        """As in wandb: records of an earlier step are dropped, also by a later process that resumes the run."""
        steps.append(steps[-1] + 1 if step is None else max(step, steps[-1]))
        if step in (None, steps[-1]):
            kept.append(record)

    run = SimpleNamespace(log=log, define_metric=lambda name, step_metric: axes.update({name: step_metric}))
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=lambda **settings: run))
    records = [{"step": 3, "loss": 1.0}, {"step": 4, "loss": 0.9}, {"step": 3, "heldout_loss": 1.1}]  # resumed at 3
    for record in records:
        (tracker,) = trackers(tmp_path, LogConfig(wandb=True))
        tracker(-1)(record)
    assert kept == records
    assert axes == {"*": "step"}


def test_tensorboard_shows_what_the_metrics_of_a_resumed_run_hold(tmp_path, monkeypatch):
    shown = []

    class Writer:
        def __init__(self, folder, purge_step):
            """As in TensorBoard: drop what was added of this step and later ones."""
            shown[:] = [point for point in shown if point[1] < purge_step]

        def add_scalar(self, name, value, step):
            shown.append((name, step))

        def flush(self):
            pass

    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=Writer))
    killed = [("loss", 1)]
    stopped = [("heldout_loss", 0), ("loss", 1), ("loss", 2), ("loss", 3)]
    resumed = [("heldout_loss", 2), ("loss", 3), ("loss", 4)]
    for restored, points in ((-1, killed), (-1, stopped), (2, resumed)):  # the checkpoint was before an evaluation
        run = Run(tmp_path)
        run.trackers = trackers(tmp_path, LogConfig(tensorboard=True))
        run.rewind(restored)
        run.report({"step": max(restored, 0), "warning": "a checkpoint is damaged"})
        for name, step in points:
            run.report({"step": step, name: 1.0})
        held = [(name, line["step"]) for line in read_records(run.metrics) for name in line if name.endswith("loss")]
        assert shown == held
    assert held == [*stopped[:3], *resumed]
