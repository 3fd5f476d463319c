"""The loop with a training of its own: it knows no objective."""

import json
import math
import signal
from dataclasses import dataclass
from itertools import count

import pytest
import torch
from torch import Tensor, nn

from electra.config.load import load_config
from electra.errors import CheckpointError, ElectraError
from electra.training.checkpoint import Checkpoints
from electra.training.loop import MOST_BAD_STEPS, Every, Training, train
from electra.training.processes import Processes
from electra.training.run import Run


@dataclass(frozen=True)
class Result:
    loss: Tensor


class Fit(nn.Module):
    """A weight that is to become a target: the input is the factor of its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0]))

    def forward(self, factor: float) -> Result:
        return Result(((self.weight - 3.0) ** 2).sum() * factor)

    def recordable(self, factor: float) -> bool:
        return True

    def rate(self, name: str) -> float:
        return 1.0

    def share(self, factor: float) -> float:
        return 1.0


class Fitting(Training):
    """The training of such a weight, with every method that a test does not replace."""

    remedy = "tread softly"
    more_time = "wait longer"

    def __init__(self, module, factors, **changes) -> None:
        self.module, self.factors, self.warnings = module, factors, ["mind the gap"]
        every = {name: changes.pop(f"{name}_every", usual) for name, usual in Every(10, 5, 1)._asdict().items()}
        self.every = Every(**every)
        for name, method in changes.items():
            assert callable(getattr(self, name))
            setattr(self, name, method)

    def updates(self, step):
        return ((1, [(factor,) for factor in self.factors(number)]) for number in count(step))

    def evaluate(self, network):
        return {"loss": (self.module.weight.item() - 3.0) ** 2}


class Clock:
    """A clock that stands still while nobody sleeps."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("electra.training.loop.time", clock)
    return clock


@pytest.fixture
def trained(tmp_path):
    """A function from the factors of each step's micro-batches to the module after training, and the run's records."""

    def work(factors, **changes) -> tuple[Fit, list[dict], Checkpoints]:
        module = Fit()
        hours = changes.pop("hours", None)
        budget = f"train.hours={hours!r}" if hours else f"train.steps={changes.pop('steps', 30)}"
        config = load_config("tiny", [budget, "train.warmup_steps=0"]).train
        (tmp_path / "run").mkdir(exist_ok=True)
        checkpoints = Checkpoints(tmp_path / "run" / "checkpoints", keep=2)
        run = Run(tmp_path / "run")
        training = Fitting(module, factors, **changes)
        train(training, config, run, checkpoints, Processes(0, 1, torch.device("cpu")))
        return module, [json.loads(line) for line in run.metrics.read_text().splitlines()], checkpoints

    return work


def test_the_weight_moves_to_its_target(trained):
    module, records, _ = trained(lambda step: [1.0])
    assert module.weight.item() > 1.01
    assert records[-1]["heldout_loss"] < records[1]["heldout_loss"]


def test_micro_batches_count_as_one_batch(trained, tmp_path):
    together, of_together, _ = trained(lambda step: [2.0, 4.0, 6.0], steps=3)
    (tmp_path / "run").rename(tmp_path / "first")
    alone, of_alone, _ = trained(lambda step: [4.0], steps=3)
    assert together.weight.item() == pytest.approx(alone.weight.item(), rel=1e-6)
    norms, expected = (
        [record["gradient_norm"] for record in records if "gradient_norm" in record]
        for records in (of_together, of_alone)
    )
    assert norms == pytest.approx(expected)


def test_processes_that_find_different_checkpoints_do_not_begin(trained, monkeypatch):
    elsewhere = {5.0: 9.0, -5.0: -5.0}  # another process is at step 9
    trained(lambda step: [1.0], steps=5)
    monkeypatch.setattr(Processes, "largest", lambda self, value: elsewhere[value])
    with pytest.raises(CheckpointError, match=r"see different checkpoints in .*: out must be a shared folder"):
        trained(lambda step: [1.0], steps=10)


def test_hours_that_are_spent_stay_spent(trained, clock):
    wait = lambda step: [clock.sleep(60) or 1.0]  # noqa: E731
    first, records, _ = trained(wait, hours=0.1)
    again, *_ = trained(wait, hours=0.1)
    assert records[-1]["step"] == 5  # the sixth minute is left for what an update took
    assert again.weight.item() == first.weight.item()


def test_hours_that_run_out_in_an_evaluation_are_over_in_its_record(trained, clock):
    slow = lambda network: clock.sleep(400) or {"loss": 1.0}  # noqa: E731
    wait = lambda step: [clock.sleep(20) or 1.0]  # noqa: E731
    _, records, _ = trained(wait, hours=0.25, evaluate=slow, evaluate_every=2)
    assert records[-1]["heldout_loss"] == 1.0
    assert records[-1]["progress"] == 1.0


def test_hours_that_the_first_evaluation_takes_are_refused(trained, clock):
    slow = lambda network: clock.sleep(400) or {"loss": 1.0}  # noqa: E731
    with pytest.raises(
        ElectraError, match="over before the first update: evaluating and saving take 400 seconds; wait longer"
    ):
        trained(lambda step: [1.0], hours=0.1, evaluate=slow)


def test_an_evaluation_without_a_number_is_not_the_best(trained):
    losses = iter([4.0, math.nan, 2.0, 3.0])
    _, _, checkpoints = trained(lambda step: [1.0], evaluate=lambda network: {"loss": next(losses)})
    assert (checkpoints.folder / "best").read_text().endswith("20")


def test_the_first_steps_show_life_before_the_first_that_is_due(trained):
    _, records, _ = trained(lambda step: [1.0], log_every=12)
    assert [record["step"] for record in records if "learning_rate" in record] == [1, 2, 4, 8, 12, 24, 30]


def test_warnings_come_first(trained):
    _, records, _ = trained(lambda step: [1.0])
    assert records[0] == {"step": 0, "warning": "mind the gap"}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_step_without_a_finite_loss_is_skipped_counted_and_reported(trained, bad):
    module, records, _ = trained(lambda step: [bad if step in (4, 9) else 1.0])
    assert math.isfinite(module.weight.item())
    losses = [record for record in records if "loss" in record]
    assert [record["skipped"] for record in losses if record["step"] in (4, 5, 9, 10, 30)] == [0, 1, 1, 2, 2]
    warnings = [record for record in records if "not finite" in record.get("warning", "")]
    assert [record["step"] for record in warnings] == [5, 10]
    assert losses[4]["loss"] is None


def test_one_bad_micro_batch_spoils_its_update_alone(trained):
    _, records, _ = trained(lambda step: [1.0, math.nan, 1.0] if step == 3 else [1.0])
    assert records[-1]["step"] == 30
    assert [record["skipped"] for record in records if "skipped" in record][-1] == 1


def test_many_bad_steps_in_a_row_end_the_run_with_the_last_checkpoint_whole(trained, tmp_path):
    with pytest.raises(
        ElectraError, match=rf"not finite for {MOST_BAD_STEPS} steps in a row, up to step 28: tread softly$"
    ):
        trained(lambda step: [1.0 if step < 8 else math.nan], steps=100, checkpoint_every=8, evaluate_every=1000)
    assert max((tmp_path / "run/checkpoints").glob("step-*")).name == "step-00000008"
    module, *_ = trained(lambda step: [1.0], steps=40, evaluate_every=1000)
    assert math.isfinite(module.weight.item())


@pytest.mark.parametrize(("bad", "every"), [(math.nan, 1000), (1.0, 10)])  # an update, or the evaluation after it
def test_a_stop_without_a_finite_loss_keeps_the_checkpoint_before_it_and_says_so(trained, tmp_path, bad, every):
    def factors(step):
        if step == 9:
            signal.raise_signal(signal.SIGTERM)
        return [1.0 if step < 8 else bad]

    said = "stopped at step 10, where the loss was not finite; the same command resumes it from an earlier step$"
    found = iter([4.0, math.nan])
    with pytest.raises(ElectraError, match=said):
        trained(factors, checkpoint_every=8, evaluate_every=every, evaluate=lambda network: {"loss": next(found)})
    assert max((tmp_path / "run/checkpoints").glob("step-*")).name == "step-00000008"


@pytest.mark.parametrize("first_bad", [11, 29])
def test_a_run_that_ends_among_bad_steps_has_no_model_and_goes_on_from_before_them(trained, tmp_path, first_bad):
    finished = []
    with pytest.raises(ElectraError, match=r"^the loss was not finite at the end, step 30: tread softly$"):
        trained(lambda step: [1.0 if step < first_bad else math.nan], finish=lambda: finished.append("spoilt"))
    assert not finished
    trained(lambda step: [1.0], finish=lambda: finished.append("whole"))
    assert finished == ["whole"]


def test_a_stop_ends_an_evaluation_which_is_made_when_the_run_goes_on(trained, tmp_path):
    asked = []

    def evaluate(network):
        for part in range(3):
            network(1.0)
            asked.append(part)
            if len(asked) == 4:  # in the first evaluation after that of the untrained network
                signal.raise_signal(signal.SIGTERM)
        return {"loss": 1.0}

    with pytest.raises(ElectraError, match="stopped at step 10; the same command resumes it"):
        trained(lambda step: [1.0], evaluate=evaluate)
    assert asked == [0, 1, 2, 0]
    _, records, checkpoints = trained(lambda step: [1.0], evaluate=evaluate)
    assert [record["step"] for record in records if "heldout_loss" in record] == [0, 10, 20, 30]
    assert (checkpoints.folder / "best").read_text() == "step-00000010"


def test_an_evaluation_that_a_stop_ended_at_the_end_is_made_once(trained):
    asked = []

    def evaluate(network):
        asked.append(len(asked))
        if len(asked) == 3:  # after the last step
            signal.raise_signal(signal.SIGTERM)
        network(1.0)
        return {"loss": len(asked)}

    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        for _ in range(3):
            trained(lambda step: [1.0], steps=4, evaluate=evaluate, evaluate_every=2)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert len(asked) == 4


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_last_update_is_for_what_comes_next(trained, number):
    heard = []
    before = signal.signal(number, lambda *_: heard.append(number))
    try:
        _, records, _ = trained(lambda step: [signal.raise_signal(number) or 1.0] if step == 29 else [1.0])
    finally:
        signal.signal(number, before)
    assert records[-1]["step"] == 30
    assert heard == [number]


def test_a_signal_that_is_ignored_stops_nothing(trained):
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        _, records, _ = trained(lambda step: [signal.raise_signal(signal.SIGINT) or 1.0])
        assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert records[-1]["step"] == 30


def test_a_run_stops_at_once_when_its_budget_is_spent(trained):
    trained(lambda step: [1.0], steps=10)
    _, records, _ = trained(lambda step: pytest.fail("no step is left"), steps=10)
    assert max(record["step"] for record in records) == 10
