"""A look at a run's metrics for what goes wrong most often, in words that say what to do."""

from collections.abc import Mapping

SETTLED = 0.1  # share of the budget after which a healthy run has left the majority class behind


def diagnose(record: Mapping[str, float]) -> list[str]:
    """Give warnings for a line of held-out metrics; `progress` is the share of the budget spent."""
    found: list[str] = []
    prefix = "heldout_"
    value = {name.removeprefix(prefix): number for name, number in record.items() if name.startswith(prefix)}
    if record.get("progress", 0.0) < SETTLED:
        return found
    if value.get("discriminator_recall", 1.0) < 0.01 and value.get("discriminator_auc", 1.0) < 0.6:
        found.append(
            "the discriminator calls every token original (the majority class) and ranks them hardly above chance: "
            "lower train.learning_rate, or begin with short sequences (train.start_length, train.length_warmup_steps)"
        )
    if value.get("discriminator_recall", 0.0) > 0.99 and value.get("discriminator_auc", 1.0) < 0.6:
        found.append(
            "the discriminator calls every token replaced and ranks them hardly above chance: it has collapsed; "
            "lower train.learning_rate, and go back to a checkpoint from before"
        )
    if value.get("sampled_accuracy", 0.0) > 0.75 or value.get("replaced_fraction", 1.0) < 0.02:
        found.append(
            "the generator is too strong: nearly all its samples are the true tokens, so there is little to detect; "
            "lower objective.generator.width or raise objective.mask_fraction"
        )
    return found
