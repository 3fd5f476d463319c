from pathlib import Path

import pytest

import electra
from electra.config.load import load_config
from electra.recipes.report.explain import EXPLANATIONS, explain_warnings
from electra.recipes.verdict import doctor

SHORT = {"tokens": 10_000, "heldout_discriminator_auc": 0.6}
BEHIND = {"tokens": 10**8, "heldout_discriminator_auc": 0.6}
COLLAPSED = {"tokens": 10**8, "heldout_discriminator_recall": 1.0, "heldout_discriminator_auc": 0.5}
TOO_STRONG = {"tokens": 10**8, "heldout_sampled_accuracy": 0.9}


@pytest.mark.parametrize("metrics", [SHORT, BEHIND, COLLAPSED, TOO_STRONG])
def test_every_diagnosis_is_explained(metrics):
    (text,) = doctor(load_config("tiny")).diagnose({"step": 7, "progress": 0.5, **metrics})
    (found,) = explain_warnings([{"step": 7, "warning": text}])
    assert found["text"] == text
    assert len(found["meaning"]) > 50
    assert len(found["advice"]) > 50


@pytest.mark.parametrize("sign", EXPLANATIONS)
def test_every_explanation_matches_a_warning_in_the_code(sign):
    sources = [path for path in Path(electra.__file__).parent.rglob("*.py") if path.name != "explain.py"]
    assert any(sign in path.read_text() for path in sources)


def test_similar_warnings_are_grouped_and_counted():
    records = [{"step": step, "warning": f"the loss was not finite ({step} so far)"} for step in (5, 9, 30)]
    (found,) = explain_warnings([{"step": 1, "loss": 2.0}, *records])
    assert (found["first_step"], found["last_step"], found["times"]) == (5, 30, 3)
    assert found["text"] == "the loss was not finite (5 so far)"


def test_an_unknown_warning_has_no_explanation():
    (found,) = explain_warnings([{"step": 0, "warning": "mind the gap"}])
    assert (found["text"], found["meaning"], found["advice"]) == ("mind the gap", "", "")
