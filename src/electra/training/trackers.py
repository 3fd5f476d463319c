"""Optional logging to TensorBoard and Weights & Biases."""

from pathlib import Path
from uuid import uuid4

from electra.config.schema import LogConfig
from electra.data.files import write_atomically
from electra.errors import ConfigError
from electra.training.run import Listener, Record, Tracker


def trackers(folder: Path, log: LogConfig) -> list[Tracker]:
    """Return the trackers that are enabled."""
    found: list[Tracker] = []
    if log.tensorboard:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ConfigError("log.tensorboard needs an extra: pip install '.[track]' in the checkout") from None

        def tensorboard(step: int) -> Listener:
            writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

            def listen(record: Record) -> None:
                for name, value in record.items():
                    if isinstance(value, int | float) and name != "step":
                        writer.add_scalar(name, value, record["step"])
                writer.flush()

            return listen

        found.append(tensorboard)
    if log.wandb:
        try:
            import wandb
        except ImportError:
            raise ConfigError("log.wandb needs an extra: pip install '.[track]' in the checkout") from None
        own = {"id": _own_id(folder / ".wandb-id"), "resume": "allow", "reinit": "create_new"}
        run = wandb.init(dir=str(folder), name=folder.name, **own)  # by default, a process has a single run
        run.define_metric("*", step_metric="step")  # wandb's own steps cannot go back when a run is resumed
        found.append(lambda step: run.log)
    return found


def _own_id(path: Path) -> str:
    """Return the unique id of a run, since other runs may have the same name."""
    if not path.is_file():
        write_atomically(path, uuid4().hex)
    return path.read_text(encoding="utf-8")
