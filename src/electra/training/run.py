"""The folder of a run: its config, its metrics and whoever wants to hear of them."""

import json
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from electra.config.load import difference, dump_config
from electra.config.schema import Root
from electra.data.files import locked, read_table, write_atomically, write_json
from electra.errors import CheckpointError, ConfigError

Record = dict[str, Any]
Listener = Callable[[Record], None]  # is told each record of `metrics.jsonl`, and what was detected
PREPARED = {"text", "tokenizer", "corpus", "corpus.partial", "plan.json", "first_stage"}  # left by stages before a run
FREE_TO_CHANGE = (
    *("train.steps", "train.tokens", "train.hours", "checkpoint.", "evaluate.", "log.", "device", "out"),
    *("train.micro_batch_size", "train.execution"),  # another machine may have less memory, or no GPU
    # What to do about a run that comes apart: go on more carefully from a checkpoint before that.
    *("train.learning_rate", "train.warmup_steps", "train.clip_norm", "train.precision"),
    *("seeds", "keep", "checkpoint_every", "log_every"),  # of a fine-tuning
)
INPUTS = "inputs.json"
FINGERPRINTED = ("data", "model", "train_file", "dev_file")  # where they lie may change, what they hold may not


def check_place(folder: Path) -> None:
    """Refuse a folder that holds something else than a run or what is prepared for one."""
    if not (folder / "config.toml").is_file():
        check_names(folder, PREPARED, "a run")


def check_moved(source: str, overrides: Sequence[str], out: str | None) -> None:
    """Refuse the config of a run that was moved or copied: unless told, it would go on in the folder that it names."""
    if out is None or any(override.partition("=")[0].strip() == "out" for override in overrides):
        return
    folder = Path(source) if Path(source).is_dir() else Path(source).parent
    if (folder / INPUTS).is_file() and folder.resolve() != Path(out).resolve():
        raise ConfigError(f"{source} names out={out}, where it does not lie; add out={folder} to go on here")


def check_names(folder: Path, known: Collection[str], what: str) -> None:
    """Refuse a folder that holds anything but what is known."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; choose another out")
    if not folder.is_dir():
        return
    names = (entry.name for entry in folder.iterdir() if not entry.name.startswith("."))  # a kill may leave hidden ones
    if strange := sorted(set(names).difference(known)):
        raise CheckpointError(f"{folder} exists and is not {what}: it holds {strange[0]}; choose another out")


def begun(folder: Path) -> bool:
    """Say whether a start anew would lose something: a model, or a saved update or a result of any part of the run."""
    updates = (path for path in folder.rglob("checkpoints/step-*") if path.name > "step-00000000")
    return (folder / "model").is_dir() or any(updates) or any(folder.rglob("seeds/*/result.json"))


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Make a run's folder, and hold it for this process alone."""
    folder.mkdir(parents=True, exist_ok=True)
    refusal = CheckpointError(f"another process is training {folder}; wait for it, or choose another out")
    with locked(folder / ".lock", refusal):
        yield


class Run:
    """Where a run is written: `config.toml` before step 1, a line of `metrics.jsonl` at each report.

    What there is to look at beside numbers goes to `samples.jsonl`.
    """

    def __init__(self, folder: Path, listeners: list[Listener]) -> None:
        self.folder = folder
        self.listeners = listeners
        self.config = folder / "config.toml"
        self.inputs = folder / INPUTS
        self.metrics = folder / "metrics.jsonl"
        self.samples = folder / "samples.jsonl"

    @contextmanager
    def open(self, config: Root, load: Callable[[Path], Root]) -> Iterator[None]:
        """Hold the folder for this process alone; write the config, or check that what has begun there is this run."""
        check_place(self.folder)
        with held(self.folder):
            if self.config.is_file():
                self._compare(config, load)
            if not begun(self.folder):
                self.write_config(config)
            yield

    def check_inputs(self, found: dict[str, str]) -> None:
        """Refuse to go on with other inputs than the run began with, told apart by their fingerprints."""
        if self.inputs.is_file() and begun(self.folder):
            before = read_table(self.inputs, "the fingerprints of a run's inputs", CheckpointError)
            if changed := [name for name in found if found[name] != before.get(name)]:
                other = ", another ".join(changed)
                raise CheckpointError(f"{self.folder} began with another {other}; choose another out")
        write_json(self.inputs, found)

    def write_config(self, config: Root) -> None:
        """Write the config that the run goes on with."""
        write_atomically(self.config, dump_config(config))

    def _compare(self, config: Root, load: Callable[[Path], Root]) -> None:
        try:
            found = difference(load(self.config), config)
        except ConfigError:
            raise ConfigError(
                f"{self.folder} holds no run of electra {config.command}, or one of another version of electra; "
                "choose another out"
            ) from None
        known = FINGERPRINTED if self.inputs.is_file() else ()
        changed = [key for key in found if not key.startswith(FREE_TO_CHANGE) and key not in known]
        changed.sort(key=lambda key: None in found[key])  # last what one of them lacks, such as another objective's
        if changed and begun(self.folder):
            named = ", ".join(f"{key} ({found[key][0]})" for key in changed[:3])
            raise ConfigError(f"{self.folder} holds a run with another {named}; choose another out")

    def rewind(self, step: int) -> None:
        """Drop metrics and samples of steps after this one: they will be taken again."""
        for path in (self.metrics, self.samples):
            if path.is_file():
                kept = [json.dumps(record) + "\n" for record in read_records(path) if record["step"] <= step]
                write_atomically(path, "".join(kept))

    def report(self, record: Record) -> None:
        """Write a record and tell the listeners."""
        _append(record, self.metrics)
        for listener in self.listeners:
            listener(record)

    def show(self, record: Record) -> None:
        """Write something to look at."""
        _append(record, self.samples)


def read_records(path: Path) -> list[Record]:
    """Read a log of a run, without the line that a kill cut short."""
    found = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            found.append(record)
    return found


def _append(record: Record, path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(finite(record)) + "\n")


def finite(value: Any) -> Any:
    """Give the same with null for every number that is not finite, since JSON knows none."""
    if isinstance(value, dict):
        return {name: finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
