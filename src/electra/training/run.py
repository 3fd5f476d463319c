"""The folder of a run: its config, its metrics and the listeners that receive them."""

import json
import os
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, FiniteFloat

from electra.config.load import difference, dump_config
from electra.config.section import Root
from electra.data.files import locked, read_table, recover, to_json, write_atomically, write_json
from electra.errors import CheckpointError, ConfigError, ElectraError

Record = dict[str, Any]
Listener = Callable[[Record], None]  # receives each record of `metrics.jsonl`, and what was detected
Tracker = Callable[[int], Listener]  # drops what it has of the steps after this one, and listens
START = "start"  # folder of the model that `electra train` starts from, inside the run's
REPLACED = "checkpoints/.step-*.old"  # of a run: a checkpoint that a kill left while it was saved again
FIRST_STAGE = "first_stage"  # folder of the stage before the last, inside the run's
PREPARED = {"text", "tokenizer", START, "corpus", "corpus.partial", "plan.json", FIRST_STAGE}
FREE_TO_CHANGE = (
    *("train.steps", "train.tokens", "train.hours", "checkpoint.", "evaluate.", "log.", "device", "out"),
    *("train.micro_batch_size", "train.execution", "train.sharding"),  # another machine may have less memory, or no GPU
    # Remedies for a diverging run, which is resumed from an earlier checkpoint.
    *("train.learning_rate", "train.warmup_steps", "train.clip_norm", "train.precision"),
    *("seeds", "keep", "checkpoint_every", "log_every"),  # of a fine-tuning
)
INPUTS = "inputs.json"
DIVERGED = "diverged.json"  # in a seed's folder: why it was given up
FINGERPRINTED = ("data", "model", "train_file", "dev_file")  # may move, but their content must not change


def tell(listeners: Iterable[Listener], record: Record) -> None:
    """Pass a record to all listeners."""
    for listener in listeners:
        listener(record)


def run_of(model: Path) -> Path | None:
    """Return the run that trained the model in a folder, or None if none did."""
    places = (Path(os.path.abspath(model)), model.resolve())  # noqa: PTH100 (the run, or the model in it, may be a link)
    return next((at.parent for at in places if at.name == "model" and (at.parent / INPUTS).is_file()), None)


def check_place(folder: Path) -> None:
    """Raise if a folder holds anything but a run or files prepared for one."""
    if not (folder / "config.toml").is_file():
        check_names(folder, PREPARED, "a run")


def check_moved(source: str, overrides: Sequence[str], out: str | None) -> None:
    """Raise if a config is that of a moved or copied run, which would resume in its old folder."""
    if out is None or any(override.partition("=")[0].strip() == "out" for override in overrides):
        return
    folder = Path(source) if Path(source).is_dir() else Path(source).parent
    if (folder / INPUTS).is_file() and folder.resolve() != Path(out).resolve():
        advice = f"add out={folder} to resume here"
        if Path(out).is_absolute():
            raise ConfigError(f"{source} was moved: its config says out={out}; {advice}")
        advice = f"run this where that is, or if it was moved, {advice}"
        raise ConfigError(f"{source} is not {out}, as its config says; {advice}")


def check_names(folder: Path, known: Collection[str], what: str) -> None:
    """Raise if a folder holds anything but the known names."""
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; choose another out")
    entries = folder.iterdir() if folder.is_dir() else ()
    names = {entry.name for entry in entries if not entry.name.startswith(".")}  # hidden: left by a kill
    if strange := sorted(names.difference(known)):
        raise CheckpointError(f"{folder} exists and is not {what}: it holds {strange[0]}; choose another out")


def begun(folder: Path) -> bool:
    """Return whether a fresh start would lose something: a model, a saved update or a result of any stage or seed."""
    saved = (path.name for pattern in ("checkpoints/step-*", REPLACED) for path in folder.rglob(pattern))
    updates = (name for name in saved if "step-00000000" not in name)
    return (folder / "model").is_dir() or any(updates) or any(folder.rglob("seeds/*/result.json"))


def held(folder: Path) -> AbstractContextManager[None]:
    """Create a run's folder and lock it."""
    folder.mkdir(parents=True, exist_ok=True)
    refusal = CheckpointError(f"another process is training {folder}; wait for it, or choose another out")
    return locked(folder / ".lock", refusal)


class Run:
    """Writes a run: `config.toml` before step 1, a line of `metrics.jsonl` per report, examples to `samples.jsonl`.

    Several processes also leave their paces in `ranks.jsonl`.
    """

    def __init__(self, folder: Path, listeners: Iterable[Listener] = ()) -> None:
        self.folder, self.listeners = folder, list(listeners)
        self.trackers: list[Tracker] = []  # listen as soon as the step is known at which the run continues
        self.config, self.inputs = folder / "config.toml", folder / INPUTS
        self.metrics, self.samples = folder / "metrics.jsonl", folder / "samples.jsonl"
        self.ranks = folder / "ranks.jsonl"

    @contextmanager
    def open(self, config: Root, load: Callable[[Path], Root]) -> Iterator[None]:
        """Lock the folder; write the config, or check that an existing run has the same settings."""
        check_place(self.folder)
        with held(self.folder):
            for old in [*self.folder.rglob(REPLACED)]:
                recover(old.with_name(old.stem[1:]))
            if self.config.is_file():
                self._compare(config, load)
            if not begun(self.folder):
                self.write_config(config)
            yield

    def check_inputs(self, found: dict[str, str]) -> None:
        """Raise if the fingerprints of the inputs differ from those that the run was started with."""
        if self.inputs.is_file():
            try:
                before = read_table(self.inputs, "the fingerprints of a run's inputs", CheckpointError)
            except CheckpointError as damaged:
                self._restart(damaged)
                before = {}
            if changed := [name for name in found if found[name] != before.get(name)]:
                names = " and ".join(changed)
                message = f"{self.folder}: {names} changed since the run was started; choose another out"
                self._restart(CheckpointError(message))
        write_json(self.inputs, found)

    def write_config(self, config: Root) -> None:
        """Write the config that the run continues with."""
        write_atomically(self.config, dump_config(config))

    def _compare(self, config: Root, load: Callable[[Path], Root]) -> None:
        try:
            found = difference(load(self.config), config)
        except ConfigError:
            raise ConfigError(
                f"{self.folder} holds no run of electra {config.command}, or one from another version of electra; "
                "choose another out"
            ) from None
        known = FINGERPRINTED if self.inputs.is_file() else ()
        changed = [key for key in found if not key.startswith(FREE_TO_CHANGE) and key not in known]
        changed.sort(key=lambda key: None in found[key])  # last the keys that one of them lacks
        if changed:
            stored = ", ".join(f"{key}={found[key][0]}" for key in changed[:3])
            message = f"{self.folder} was started with {stored}; use the same settings or choose another out"
            self._restart(ConfigError(message))

    def _restart(self, refusal: ElectraError) -> None:
        """Forget which seeds were given up, since something changed; raise if more would be lost."""
        if begun(self.folder):
            raise refusal
        for given_up in self.folder.rglob(f"seeds/*/{DIVERGED}"):
            given_up.unlink(missing_ok=True)  # another seed's process may do the same

    def rewind(self, step: int) -> None:
        """Drop what was recorded of later steps, which will be repeated."""
        for path, line in ((self.metrics, _Line), (self.samples, _Line), (self.ranks, _Paces)):
            if path.is_file():
                kept = [to_json(record) + "\n" for record in read_records(path, line) if record["step"] <= step]
                write_atomically(path, "".join(kept))
            elif path.exists():  # writing to a named pipe would wait for a reader
                raise CheckpointError(f"{path} is not a file; remove it and run the same command again")
        self.listeners += [tracker(step) for tracker in self.trackers]

    def report(self, record: Record) -> None:
        """Write a record of metrics and pass it to the listeners."""
        _append(record, self.metrics)
        tell(self.listeners, record)

    def show(self, record: Record) -> None:
        """Write a record of samples."""
        _append(record, self.samples)

    def note_paces(self, record: Record) -> None:
        """Write how long each of several processes computed in an update before it first waited for the others."""
        _append(record, self.ranks)


class _Line(BaseModel):
    """A line of a log: where the run was, and a warning, samples or metrics (null where one was not finite)."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, float | None]
    step: int
    tokens: int = 0
    seconds: FiniteFloat = 0.0
    progress: FiniteFloat = 0.0
    warning: str = ""
    samples: Sequence[dict[str, Any]] = ()


class _Paces(BaseModel):
    """A line of `ranks.jsonl`."""

    step: int
    seconds: list[FiniteFloat]


def read_records(path: Path, line: type[BaseModel] = _Line) -> list[Record]:
    """Read a log of a run, skipping damaged lines; return an empty list if there is none."""
    found = []
    for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
        with suppress(ValueError, RecursionError):
            record = json.loads(text)
            line.model_validate(record, strict=True)
            found.append(record)
    return found


def read_part(path: Path) -> Any:
    """Read a TOML or JSON file of a run, if it exists, without validation: a config may be from another version."""
    parse = tomllib.loads if path.suffix == ".toml" else json.loads
    try:
        return parse(path.read_text(encoding="utf-8")) if path.is_file() else None
    except (ValueError, RecursionError) as problem:
        kind = path.suffix[1:].upper()
        raise CheckpointError(f"{path}: not valid {kind}: {problem}; restore it or remove it") from None


def _append(record: Record, path: Path) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(to_json(record) + "\n")
