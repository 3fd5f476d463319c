"""The live line."""

import pytest

from electra.cli.progress import LiveLine


@pytest.mark.parametrize(
    ("record", "shown"),
    [
        ({"step": 4, "warning": "text runs dry"}, "warning: text runs dry"),
        ({"step": 25, "seed": 1, "heldout_accuracy": 0.75, "heldout_f1": 0.5}, "accuracy 0.7500 · f1 0.5000"),
        ({"step": 9, "heldout_loss": 20.0, "heldout_discriminator_auc": 0.8}, "step 9 held out: AUC 0.800"),
        ({"step": 9, "heldout_loss": 2.0}, "step 9 held out: loss 2.0000"),
        ({"step": 2, "loss": 0.5, "seconds": 3.0, "progress": 0.5}, "step 2 loss 0.5000 left 0:00:03"),
    ],
)
def test_what_a_line_says(record, shown, capsys):
    with LiveLine(quiet=False) as line:
        line(record)
    assert shown in capsys.readouterr().err


def test_a_quiet_line_still_warns(capsys):
    with LiveLine(quiet=True) as line:
        line({"step": 2, "loss": 0.5, "seconds": 3.0, "progress": 0.5})
        line({"step": 4, "warning": "text runs dry"})
    assert capsys.readouterr().err == "warning: text runs dry\n"
