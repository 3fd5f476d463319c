"""The progress line."""

import pytest

from electra.training.progress import LiveLine, watched


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"step": 4, "warning": "text runs dry"}, "warning: text runs dry"),
        ({"step": 25, "seed": 1, "heldout_accuracy": 0.75, "heldout_f1": 0.5}, "accuracy 0.7500 · f1 0.5000"),
        ({"step": 9, "heldout_loss": 20.0, "heldout_discriminator_auc": 0.8}, "step 9 held out: AUC 0.800"),
        ({"step": 9, "heldout_loss": 2.0}, "step 9 held out: loss 2.0000"),
        ({"step": 2, "loss": 0.5, "seconds": 3.0, "progress": 0.5}, "step 2 loss 0.5000\n"),
    ],
)
def test_what_the_line_shows(record, shown, capsys):
    with LiveLine(quiet=False) as line:
        line(record)
    assert shown in capsys.readouterr().err


def test_the_time_left_follows_the_pace_since_the_first_record(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    with LiveLine(quiet=False) as line:
        for step, seconds in ((1, 100.0), (2, 101.0), (3, 102.0)):  # startup took 99 seconds
            line({"step": step, "loss": 0.5, "seconds": seconds, "progress": step / 100})
        line({"step": 1, "loss": 0.5, "seconds": 1.0, "progress": 0.01})  # another stage
    shown = capsys.readouterr().err.split("\r\033[K")
    assert shown[1:] == [
        "step 1 loss 0.5000",
        "step 2 left 0:01:38 loss 0.50",  # cut at the terminal's width
        "step 3 left 0:01:37 loss 0.50",
        "step 1 loss 0.5000\n",
    ]


def test_the_time_left_starts_anew_with_another_task_of_the_same_seed(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with LiveLine(quiet=False) as line:
        for step, seconds, progress in ((1, 1.0, 0.1), (9, 9.5, 0.5), (1, 1.0, 0.25), (2, 2.5, 0.5)):
            line({"step": step, "seed": 0, "loss": 0.5, "seconds": seconds, "progress": progress})
    _, *shown = capsys.readouterr().err.split("\r\033[K")
    assert [text.partition(" loss")[0] for text in shown] == [
        "seed 0 step 1", "seed 0 step 9 left 0:00:10", "seed 0 step 1", "seed 0 step 2 left 0:00:03"
    ]  # fmt: skip


def test_listeners_are_told_and_only_their_absence_shows_progress(capsys, monkeypatch):
    record = {"step": 2, "loss": 0.5, "seconds": 3.0, "progress": 0.5}
    heard = []
    for terminal, listeners in ((False, None), (True, []), (True, [heard.append]), (True, None)):
        monkeypatch.setattr("sys.stderr.isatty", lambda terminal=terminal: terminal)
        with watched(listeners) as found:
            for listener in found:
                listener(record)
    assert heard == [record]
    assert capsys.readouterr().err.count("step 2") == 1


def test_a_quiet_line_still_warns(capsys):
    with LiveLine(quiet=True) as line:
        line({"step": 2, "loss": 0.5, "seconds": 3.0, "progress": 0.5})
        line({"step": 4, "warning": "text runs dry"})
    assert capsys.readouterr().err == "warning: text runs dry\n"
