"""The warnings of a run, explained: what has happened, and what to do about it."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from electra.training.run import Record


class Explanation(NamedTuple):
    """A warning in plain words."""

    sign: str  # words of the warning by which it is known
    meaning: str
    advice: str


EXPLANATIONS = (
    Explanation(
        "calls every token original",
        "About six tokens in seven are original, so a network that always says “original” is right most of the time. "
        "This one says so and nothing more: recall is near 0, and AUC is near the 0.5 of guessing. Early in a run this "
        "is common, and AUC then rises by itself; late in a run nothing is being learnt.",
        "If AUC still lies flat after a quarter of the run, start again with a lower train.learning_rate, or with "
        "short sequences first (train.start_length=16, train.length_warmup_steps=1000), as the preset quick does.",
    ),
    Explanation(
        "calls every token replaced",
        "The discriminator says “replaced” of every token: recall is 1, AUC near the 0.5 of guessing. Its states "
        "have collapsed, and a network rarely recovers from that.",
        "Remove the checkpoints that are newer than the one named in RUN/checkpoints/best, and go on with half the "
        "train.learning_rate; if it happened at once, start again with a longer train.warmup_steps.",
    ),
    Explanation(
        "the generator is too strong",
        "Nearly every token that the generator puts in is the one that stood there before, and such tokens count as "
        "original. Hardly anything is left to be found, so the discriminator learns from few examples.",
        "Use a narrower generator (objective.generator.width of 1/4 to 1/2), mask more (objective.mask_fraction), or "
        "set objective.forbid_original=true.",
    ),
    Explanation(
        "the loss was not finite",
        "A gradient was infinite or not a number, so that update was left out. One now and then does no harm; many in "
        "a row mean that the training is coming apart, and the run stops by itself after twenty.",
        "Lower train.learning_rate or raise train.warmup_steps, and go on from the last good checkpoint: electra "
        "pretrain RUN/config.toml train.learning_rate=VALUE. With train.precision=float32 one sees whether rounding is "
        "to blame.",
    ),
    Explanation(
        "the text runs dry",
        "The same text is read very many times. Held-out loss stops falling, and later rises, while training loss goes "
        "on falling: the networks learn the text by heart.",
        "Add text, train for fewer steps, or take a smaller model. Held-out curves show when it was enough.",
    ),
    Explanation(
        "gets the same answer",
        "The fine-tuned network says the same of every example, usually the commonest label, whatever the text: its "
        "states have collapsed, or there were too few updates to learn anything. Its score is that of guessing.",
        "Lower learning_rate, try several ('learning_rates=[3e-5, 1e-4, 3e-4]'), or give more epochs where there "
        "are few rows. The other seeds may be fine.",
    ),
    Explanation(
        "is damaged",
        "The newest checkpoint was not whole, perhaps because the disk was full or the machine went down. The run went "
        "on from the one before, and trained the steps in between once more: the result is the same.",
        "Nothing, if it happened once. If it happens again, look at the disk and its free space.",
    ),
    Explanation(
        "starts from random weights",
        "The model that the run starts from lacks this part, so it is learnt anew. The first losses are high there.",
        "Nothing, if you expected it. A model with its generator gives a better start: see electra import --generator.",
    ),
)
UNKNOWN = Explanation("", "", "")


def explain_warnings(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Gather the warnings among some records, like ones together, each with its explanation."""
    found: dict[str, dict[str, Any]] = {}
    for record in records:
        if text := record.get("warning"):
            kind = re.sub(r"\d+", "", text)
            _, meaning, advice = next((known for known in EXPLANATIONS if known.sign in text), UNKNOWN)
            first = {"text": text, "times": 0, "first_step": record["step"], "meaning": meaning, "advice": advice}
            entry = found.setdefault(kind, first)
            entry |= {"times": entry["times"] + 1, "last_step": record["step"]}
    return list(found.values())
