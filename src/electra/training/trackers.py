"""Optional logging to TensorBoard and Weights & Biases."""

from pathlib import Path
from uuid import uuid4

from electra.config.schema import LogConfig
from electra.data.files import write_atomically
from electra.errors import ConfigError
from electra.training.run import Listener, Record


def trackers(folder: Path, log: LogConfig) -> list[Listener]:
    """Return a listener for each tracker that is enabled."""
    found: list[Listener] = []
    if log.tensorboard:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("log.tensorboard needs an extra: pip install '.[track]' in the checkout") from None
        writers: list[SummaryWriter] = []

        def to_tensorboard(record: Record) -> None:
            step = record["step"]
            values = {
                name: value for name, value in record.items() if isinstance(value, int | float) and name != "step"
            }
            if values and not writers:  # a resumed run repeats steps: what it had logged of them is to be dropped
                writers.append(SummaryWriter(str(folder / "tensorboard"), purge_step=step))
            for name, value in values.items():
                writers[0].add_scalar(name, value, step)
            for writer in writers:
                writer.flush()

        found.append(to_tensorboard)
    if log.wandb:
        try:
            import wandb
        except ImportError:
            raise ConfigError("log.wandb needs an extra: pip install '.[track]' in the checkout") from None
        own = {"id": _own_id(folder / ".wandb-id"), "resume": "allow", "reinit": "create_new"}
        run = wandb.init(dir=str(folder), name=folder.name, **own)  # by default, a process has a single run
        found.append(lambda record: run.log(record, step=record["step"]))
    return found


def _own_id(path: Path) -> str:
    """Return the unique id of a run, since other runs may have the same name."""
    if not path.is_file():
        write_atomically(path, uuid4().hex)
    return path.read_text(encoding="utf-8")
