"""Explanations of warnings: what happened, and what to do about it."""

import re
from collections.abc import Sequence
from typing import Any

from electra.training.run import Record

EXPLANATIONS = {  # by a text that identifies the warning: what it means, and what to do about it
    "the run is too short": (
        "At first both networks only learn how often each token occurs: AUC stays near 0.5 (chance), and the generator "
        "predicts frequent tokens. Runs of this size need more tokens than this one reads to leave that plateau.",
        "Train longer (train.hours, or --hours of electra train), or on a faster machine.",
    ),
    "the run is behind": (
        "Healthy runs of this size in the project's ledger reach more on held-out text after as many tokens. AUC near "
        "0.5 is chance: about six of seven tokens are original, so a network that always answers “original” is mostly "
        "right and has learned nothing.",
        "If the curve is still flat after a quarter of the run, restart with the setting that the warning names, or "
        "with half the train.learning_rate.",
    ),
    "calls every token replaced": (
        "The discriminator answers “replaced” for every token: recall is 1, and AUC is near 0.5 (chance). Its hidden "
        "states have collapsed, and training rarely recovers from that.",
        "Delete the checkpoints that are newer than the one named in RUN/checkpoints/best, and resume with half the "
        "train.learning_rate; if it happened right at the start, restart with more train.warmup_steps.",
    ),
    "the generator is too strong": (
        "Nearly all tokens that the generator samples are the original ones, and these count as original. Few "
        "replacements are left to detect, so the discriminator learns from few examples.",
        "Use a smaller generator (objective.generator.width of 1/4 to 1/2; with the body modern, a smaller "
        "objective.generator.depth), mask more (objective.mask_fraction), or set objective.forbid_original=true.",
    ),
    "the loss was not finite": (
        "A gradient was infinite or NaN, so the update was skipped. A few skips are harmless; many in a row mean that "
        "training diverges, and the run stops after twenty.",
        "Lower train.learning_rate or raise train.warmup_steps, and resume from the last good checkpoint: electra "
        "pretrain RUN/config.toml train.learning_rate=VALUE. train.precision=float32 shows if rounding is the cause.",
    ),
    "the text runs dry": (
        "The same text is read too many times. Held-out loss stops falling and later rises while training loss keeps "
        "falling: the networks memorize the text.",
        "Add text, train for fewer steps, or use a smaller model. The held-out curves show when to stop.",
    ),
    "gets the same answer": (
        "The fine-tuned network gives the same answer for every example, usually the most common label: its hidden "
        "states have collapsed, or there were too few updates to learn anything. Its score is no better than guessing.",
        "Try other rates ('learning_rates=[1e-4, 3e-4, 1e-3]'), or train for more epochs if there are few rows. The "
        "other seeds may be fine.",
    ),
    "is damaged": (
        "The newest checkpoint was incomplete, perhaps because the disk was full or the machine crashed. The run "
        "resumed from the previous one and repeated the steps in between: the result is the same.",
        "Nothing, if it happened once. If it happens again, check the disk and its free space.",
    ),
    "a process is slow": (
        "All processes wait for each other in every update, so that the slowest one sets the pace of the run.",
        "Look at that machine: other work on it, a GPU that is hot or throttled (nvidia-smi -q -d PERFORMANCE), a slow "
        "disk or network. RUN/ranks.jsonl has the times of all processes.",
    ),
    "starts from random weights": (
        "The model that the run starts from lacks this part, so it is trained from scratch. Its loss is high at first.",
        "Nothing, if you expected it. A model with its generator is a better start: see electra import --generator.",
    ),
}


def explain_warnings(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Return the warnings in some records with their explanations, grouping those that differ only in numbers."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        if text := record.get("warning"):
            kind = re.sub(r"\d+", "", text)
            meaning, advice = next((known for sign, known in EXPLANATIONS.items() if sign in text), ("", ""))
            first = {"text": text, "times": 0, "first_step": record["step"], "meaning": meaning, "advice": advice}
            entry = found.setdefault(kind, first)
            entry |= {"times": entry["times"] + 1, "last_step": record["step"]}
    return list(found.values())
