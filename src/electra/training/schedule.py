"""Learning rate and sequence length of each step, as pure functions of config and step."""

from electra.config.schema import TrainConfig


def total_steps(train: TrainConfig) -> int | None:
    """Return the number of updates of a run, or None if its budget is in hours."""
    if train.tokens is None:
        return train.steps
    return max(1, train.tokens // (train.batch_size * train.length))


def learning_rate(train: TrainConfig, step: int, progress: float) -> float:
    """Return the learning rate of an update; `progress` is the share of the budget spent before it.

    `linear` is the original's decay times warm-up: its peak is slightly below the base rate, and step 0 has rate 0.
    """
    warmup = min(1.0, step / train.warmup_steps) if train.warmup_steps else 1.0
    remaining = max(0.0, 1.0 - progress)
    decay = remaining if train.schedule == "linear" else min(1.0, remaining / train.decay_fraction)
    return train.learning_rate * decay * warmup


def length_at(train: TrainConfig, step: int) -> int:
    """Return the sequence length of an update: `start_length` during warm-up."""
    if train.start_length and train.length_warmup_steps and step < train.length_warmup_steps:
        return train.start_length
    return train.length
