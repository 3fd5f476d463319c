"""Learning rate, batch size and sequence length of each step, as pure functions of config and step."""

from itertools import accumulate

from electra.config.schema import TrainConfig


def total_steps(train: TrainConfig) -> int | None:
    """Return the number of updates of a run, or None if its budget is in hours."""
    if train.tokens is None:
        return train.steps
    micro_batches_allowed = train.tokens // (train.smallest_batch * train.length)
    ramp = train.batch_warmup_steps or 0
    in_ramp = micro_batches_before(train, ramp)
    if micro_batches_allowed >= in_ramp:
        return max(1, ramp + (micro_batches_allowed - in_ramp) // micro_batches(train, ramp))
    read = accumulate(micro_batches(train, step) for step in range(ramp))
    return max(1, next(step for step, count in enumerate(read) if count > micro_batches_allowed))


def learning_rate(train: TrainConfig, step: int, progress: float) -> float:
    """Return the learning rate of an update; `progress` is the share of the budget spent before it.

    `linear` is the original's decay times warm-up: its peak is slightly below the base rate, and step 0 has rate 0.
    """
    warmup = min(1.0, step / train.warmup_steps) if train.warmup_steps else 1.0
    remaining = max(0.0, 1.0 - progress)
    decay = remaining if train.schedule == "linear" else min(1.0, remaining / train.decay_fraction)
    return train.learning_rate * decay * warmup


def micro_batches(train: TrainConfig, step: int) -> int:
    """Return the number of micro-batches of an update; during warm-up the batch is a multiple of its initial size.

    The batch size does not depend on the micro-batch size, which may change when a run resumes.
    """
    size, start = train.batch_size, train.start_batch_size
    if start is not None and train.batch_warmup_steps is not None and step < train.batch_warmup_steps:
        grown = start + (size - start) * step // train.batch_warmup_steps
        size = grown // start * start
    return size // train.smallest_batch


def micro_batches_before(train: TrainConfig, step: int) -> int:
    """Return the number of micro-batches read before an update, its position in the data."""
    ramp = min(step, train.batch_warmup_steps or 0)
    return sum(micro_batches(train, early) for early in range(ramp)) + (step - ramp) * micro_batches(train, step)


def length_at(train: TrainConfig, step: int) -> int:
    """Return the sequence length of an update: `start_length` during warm-up."""
    if train.start_length and train.length_warmup_steps and step < train.length_warmup_steps:
        return train.start_length
    return train.length
