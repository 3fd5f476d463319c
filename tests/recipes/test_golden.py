"""Losses of 20 steps of every objective, as they were: a change that moves them must mean to.

To renew tests/recipes/golden/losses.txt after such a change, say why in the commit and run:
    RENEW_GOLDEN=1 python -m pytest tests/recipes/test_golden.py --numprocesses 0
"""

import os
from pathlib import Path

import pytest
import torch

from electra.recipes.pretrain import pretrain

GOLDEN = Path(__file__).parent / "golden" / "losses.txt"
TWO_STAGE = ["objective.algorithm=two_stage", "objective.generator.width=1.0", "objective.generator.sharing=none"]
VARIANTS = {
    "electra": [],
    "mlm": ["objective.name=mlm"],
    "electra_15": ["objective.name=electra_15"],
    "corrective": ["objective.name=corrective"],
    "replace_mlm": ["objective.name=replace_mlm"],
    "all_tokens_mlm": ["objective.name=all_tokens_mlm"],
    "electric": ["objective.name=electric"],
    "two_stage": TWO_STAGE,
    "adversarial": ["objective.algorithm=adversarial"],
    "uniform": ["objective.generator.kind=uniform"],
    "unigram": ["objective.generator.kind=unigram"],
    "two_tower": ["objective.generator.kind=two_tower"],
    "sharing_none": ["objective.generator.sharing=none"],
    "sharing_all": ["objective.generator.sharing=all", "objective.generator.width=1.0"],
    "gdes": ["objective.generator.sharing=gdes"],
    "with_replacement": ["objective.mask_draw=with_replacement"],
    "whole_words": ["objective.whole_words=true"],
    "forbid_original": ["objective.forbid_original=true", "objective.temperature=0.7"],
    "adamw": ["train.optimizer=adamw", "train.schedule=stable"],
    "muon": ["train.optimizer=muon"],
}


def golden() -> dict[str, list[float]]:
    rows = (line.split() for line in GOLDEN.read_text().splitlines())
    return {name: [float(loss) for loss in losses] for name, *losses in rows}


@pytest.fixture
def losses(config, records):
    """A function from the name of a variant to its losses, step by step."""

    def measure(name: str) -> list[float]:
        rare = ["evaluate.every=100", "checkpoint.every=100", "train.steps=20"]
        run = pretrain(config(*VARIANTS[name], *rare, out=name))
        return [round(line["loss"], 4) for line in records(run) if "loss" in line]

    return measure


@pytest.mark.skipif(torch.__version__ < (2, 12), reason="PyTorch 2.11 draws other initial weights from a seed")
@pytest.mark.parametrize("name", VARIANTS)
def test_losses_are_what_they_were(losses, name):
    found = losses(name)
    assert len(found) == 20
    if "RENEW_GOLDEN" in os.environ:
        rows = {**(golden() if GOLDEN.is_file() else {}), name: found}
        GOLDEN.write_text("".join(f"{name} {' '.join(f'{loss:.4f}' for loss in rows[name])}\n" for name in rows))
    assert found == pytest.approx(golden()[name], rel=1e-3)
