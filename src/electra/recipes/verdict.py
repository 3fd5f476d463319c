"""What a run has learned: the verdict of `electra train`, `electra pretrain` and the report."""

from pathlib import Path

from electra.config.load import load_config
from electra.config.schema import PretrainConfig
from electra.objectives.doctor import Doctor, Verdict
from electra.training.run import Run, read_records


def doctor(config: PretrainConfig) -> Doctor:
    """Return the judge of a run with these settings."""
    return Doctor(config.model, config.objective, config.train, "model" if config.init else config.embeddings)


def verdict(folder: Path) -> Verdict | None:
    """Return what a run has learned by its latest evaluation, or None if that was not measured."""
    run = Run(folder)
    evaluations = [record for record in read_records(run.metrics) if "heldout_loss" in record]
    return doctor(load_config(run.config)).verdict(evaluations[-1]) if evaluations else None
