"""Expected curves: the metric that healthy runs of a kind reach after some tokens, from the project's ledger.

`docs/expected.py` computes `expected.json`.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np

from electra.config.bodies import ModelConfig
from electra.config.objectives import Discriminating, Masking

CURVES = resources.files("electra.objectives") / "expected.json"
GUESSING = {"discriminator_auc": 0.55, "mlm_hidden_accuracy": 0.08}  # reached without using context
GUESSING_RARE = 0.85  # AUC of telling uniformly drawn tokens by their rarity
SIMILAR = 1.4  # ratio of widths up to which runs are compared


@dataclass(frozen=True)
class Band:
    """The range of a held-out metric in healthy runs of one kind, over the tokens they have read."""

    objective: str
    generator: str | None
    generator_width: float | None  # relative to the discriminator's: a stronger one leaves less to detect
    body: str
    width: int
    metric: str
    runs: int
    tokens: list[int]
    low: list[float]
    high: list[float]

    def at(self, tokens: float) -> tuple[float, float]:
        """Return the range after some tokens; before the first measurement, that of the first."""
        low, high = (np.interp(np.log(max(tokens, 1)), np.log(self.tokens), side) for side in (self.low, self.high))
        return float(low), float(high)

    @property
    def needed(self) -> int:
        """The tokens after which healthy runs have learned something."""
        learned = (count for count, low in zip(self.tokens, self.low, strict=True) if low > GUESSING[self.metric])
        return next(learned, self.tokens[-1])


def kind_of(objective: Masking) -> tuple[str, str | None, float | None]:
    """Return the kinds of an objective and of its generator, and the latter's width: other metrics do not compare."""
    generator = getattr(objective, "generator", None)
    return objective.kind, generator and generator.kind, getattr(generator, "width", None)


def metric_of(objective: Masking) -> str:
    """Return the held-out metric that shows what a run has learned."""
    return "discriminator_auc" if isinstance(objective, Discriminating) else "mlm_hidden_accuracy"


def guessing(objective: Masking) -> float:
    """Return what the metric of an objective reaches without any use of context."""
    return GUESSING_RARE if kind_of(objective)[1] == "uniform" else GUESSING[metric_of(objective)]


def expected_band(model: ModelConfig, objective: Masking) -> Band | None:
    """Return what to expect of a run, or None if the ledger has too few runs like it."""
    for band in _bands():
        ratio = band.width / model.hidden_size
        alike = (band.objective, band.generator, band.generator_width, band.body) == (*kind_of(objective), model.body)
        if alike and 1 / SIMILAR < ratio < SIMILAR:
            return band
    return None


@cache
def _bands() -> list[Band]:
    return [Band(**band) for band in json.loads(CURVES.read_text(encoding="utf-8"))]
