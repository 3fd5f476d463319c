"""Judge a run by its held-out metrics: warnings on the way, a verdict at the end, and advice for both."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from electra.config.bodies import ModelConfig
from electra.config.objectives import Masking, SizedGenerator
from electra.config.schema import TrainConfig
from electra.objectives.expected import Band, expected_band, guessing, metric_of

SETTLED, UNKNOWN = 0.1, 0.5  # share of the budget after which a run is judged; without similar runs
TOO_EARLY = 10  # times fewer tokens than similar runs need: too few to judge by
CLEARLY = 0.1  # above guessing: what a run without similar ones should reach, and what shows that runs have learned
LENGTH_WARMUP = 1000  # at most; a short run takes a tenth of its updates, as in the plans of `electra train`
SHOWN = {"discriminator_auc": "AUC {:.2f}", "mlm_hidden_accuracy": "{:.0%} of the hidden tokens predicted"}


@dataclass(frozen=True)
class Verdict:
    """What a run has learned, in one sentence."""

    learned: Literal["nothing", "little", "enough"]
    sentence: str


@dataclass(frozen=True)
class Doctor:
    """Judges a run with these settings by its held-out metrics."""

    model: ModelConfig
    objective: Masking
    train: TrainConfig
    start: Literal["random", "cooccurrence", "model"] = "random"  # of the weights

    @cached_property
    def band(self) -> Band | None:
        """What similar runs reach; None if there are none."""
        return None if self.start == "model" else expected_band(self.model, self.objective)

    def verdict(self, record: Mapping[str, Any]) -> Verdict | None:
        """Return what the run has learned, or None if the record does not show it."""
        metric, tokens, progress = metric_of(self.objective), record.get("tokens", 0), record.get("progress")
        updates = record["step"] / progress if progress else math.inf  # of the complete run
        value = record.get(f"heldout_{metric}")
        if value is None:
            return None
        found = f"{SHOWN[metric].format(value)} after {amount(tokens)} tokens"
        low, high = guessing(self.objective) + CLEARLY, 1.0
        if self.band:
            judged = max(tokens, self.band.needed)
            low, high = self.band.at(judged)
            when = "by now" if judged == tokens else f"after {amount(judged)}"
            found += f", where runs of this size reach {low:.2f} to {high:.2f} {when}"
        if value <= guessing(self.objective):
            return Verdict("nothing", f"Learned nothing: {found}; {self._advice(tokens, updates, learning=False)}")
        if self.band and tokens < self.band.needed / TOO_EARLY:  # what an untrained generator writes is easy to detect
            return Verdict("little", f"Too short to have learned much: {found}; {self._advice(tokens, updates)}")
        if value < low:
            return Verdict("little", f"Learned little: {found}; {self._advice(tokens, updates)}")
        how = ("Learned as expected" if value <= high else "Learned well") if self.band else "Reached"
        return Verdict("enough", f"{how}: {found}")

    def shortage(self, tokens: float) -> list[str]:
        """Return a warning if a run that reads this many tokens is too short."""
        if self.band is None or tokens >= self.band.needed:
            return []
        if self.band.low[0] > guessing(self.objective) + CLEARLY:  # they had already learned when first measured
            return []
        counts = f"{amount(tokens)} tokens, where runs of this size need {amount(self.band.needed)}"
        return [f"the run is too short to learn anything: it reads about {counts}; {self._advice(tokens)}"]

    def diagnose(self, record: Mapping[str, Any]) -> list[str]:
        """Return warnings about a record of held-out metrics; each is of the kind named before its colon."""
        value = {key.removeprefix("heldout_"): number for key, number in record.items() if key.startswith("heldout_")}
        tokens, progress = record.get("tokens", 0), record.get("progress", 0.0)
        if not value or not tokens or progress < SETTLED:  # a clock runs before the first update
            return []
        found = self.shortage(tokens / progress)
        if value.get("discriminator_recall", 0.0) > 0.99 and value.get("discriminator_auc", 1.0) < 0.6:
            found.append(
                "the discriminator calls every token replaced and ranks tokens barely above chance: it has collapsed; "
                "resume from an earlier checkpoint with a lower train.learning_rate"
            )
        elif (verdict := self.verdict(record)) and verdict.learned != "enough" and self._due(tokens, progress):
            found.append(f"the run is behind: {verdict.sentence[0].lower()}{verdict.sentence[1:]}")
        if value.get("sampled_accuracy", 0.0) > 0.75 or value.get("replaced_fraction", 1.0) < 0.02:
            size = "depth" if self.model.body == "modern" else "width"  # with this body, embeddings fix the width
            found.append(
                "the generator is too strong: nearly all its samples are the original tokens, leaving little to "
                f"detect; lower objective.generator.{size} or raise objective.mask_fraction"
            )
        return found

    def _due(self, tokens: float, progress: float) -> bool:
        """Return whether a run should have learned something by now."""
        return tokens >= self.band.needed if self.band else progress >= UNKNOWN

    def _advice(self, tokens: float, updates: float = math.inf, *, learning: bool = True) -> str:
        """Return what to try, leaving out what the run does already; a lower rate only helps a run that is stuck."""
        if self.band and tokens < self.band.needed:
            return f"train on at least {amount(self.band.needed)} tokens"
        if self.start == "model":  # what helps random weights over a slow start does not suit it
            return "train longer"
        model, train = self.model, self.train
        warmup = max(1, round(min(LENGTH_WARMUP, updates / 10)))
        generator = getattr(self.objective, "generator", None)
        # A generator of the body modern has no plateau to leave: results/2026-11-17-modern-quality.
        starts = model.body == "modern" and isinstance(generator, SizedGenerator)
        followed = {
            "embeddings=cooccurrence": self.start == "cooccurrence",
            f"train.start_length=16 train.length_warmup_steps={warmup}": train.start_length or starts,
            "model.dropout=0.0 model.attention_dropout=0.0": not (model.dropout or model.attention_dropout),
            "objective.prior=0.13": getattr(self.objective, "prior", True),
        }
        new = [setting for setting, done in followed.items() if not done]
        if learning and not new:
            return "train longer"
        return f"try {new[0] if new else f'train.learning_rate={train.learning_rate / 2:g}'}"


def amount(tokens: float) -> str:
    """Format a number of tokens."""
    if tokens >= 1e9:
        return f"{tokens / 1e9:.3g} G"
    return f"{tokens / 1e6:.2g} M" if tokens < 1e8 else f"{tokens / 1e6:.0f} M"
