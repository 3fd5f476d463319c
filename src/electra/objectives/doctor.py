"""Checks of a run's metrics for common problems, with advice on what to do."""

from collections.abc import Mapping

SETTLED = 0.1  # share of the budget after which a healthy run predicts more than the majority class


def diagnose(record: Mapping[str, float]) -> list[str]:
    """Return warnings for a record of held-out metrics; `progress` is the share of the budget spent."""
    if record.get("progress", 0.0) < SETTLED:
        return []
    found: list[str] = []
    value = {name.removeprefix("heldout_"): number for name, number in record.items() if name.startswith("heldout_")}
    if value.get("discriminator_recall", 1.0) < 0.01 and value.get("discriminator_auc", 1.0) < 0.6:
        found.append(
            "the discriminator calls every token original (the majority class) and ranks tokens barely above chance: "
            "lower train.learning_rate, or start with short sequences (train.start_length, train.length_warmup_steps)"
        )
    if value.get("discriminator_recall", 0.0) > 0.99 and value.get("discriminator_auc", 1.0) < 0.6:
        found.append(
            "the discriminator calls every token replaced and ranks tokens barely above chance: it has collapsed; "
            "resume from an earlier checkpoint with a lower train.learning_rate"
        )
    if value.get("sampled_accuracy", 0.0) > 0.75 or value.get("replaced_fraction", 1.0) < 0.02:
        found.append(
            "the generator is too strong: nearly all its samples are the original tokens, leaving little to detect; "
            "lower objective.generator.width or raise objective.mask_fraction"
        )
    return found
