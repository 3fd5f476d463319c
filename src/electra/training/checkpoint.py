"""Checkpoints: everything that a run needs to resume as if it had never stopped.

A checkpoint is a folder `step-00001000` with the weights and the optimizer's tensors as safetensors, and `state.json`
with the rest and the checksums of the other files. It is written atomically: under a temporary name, then renamed.
Several processes write files of their own, each with some of the tensors, or with its rows of each if they divide the
weights; any number of processes can resume from any kind.
"""

import shutil
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.data.files import (
    differing_files,
    file_sha256,
    partial_path,
    read_sealed,
    replace_folder,
    sync,
    write_atomically,
    write_sealed,
)
from electra.data.storage import upload
from electra.errors import CheckpointError
from electra.model.tensors import write_tensors
from electra.training.optim import Optimizer
from electra.training.processes import Processes
from electra.training.stored import SUFFIX, Stored, find_tensors

STATE = "state.json"
Tensors = dict[str, dict[str, Tensor]]  # by kind, weights or optimizer, and by name


@dataclass(frozen=True)
class Restored:
    """The state of the restored checkpoint without its tensors, and newer checkpoints that were damaged."""

    state: dict[str, Any]
    damaged: list[Path]


class Checkpoints:
    """The checkpoints of a run, written in the background: the newest few, and the best in case it diverges later."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep
        self.writer = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self.writing: Future[float] | None = None

    def save(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any], best: bool) -> None:
        """Copy the tensors and begin to write them; an error in writing is raised by the next call or `wait`.

        `state` contains the step.
        """
        self.wait()
        kinds = _tensors_of(module, optimizer).items()
        copies = {kind: {name: _copied(tensor) for name, tensor in tensors.items()} for kind, tensors in kinds}
        self.writing = self.writer.submit(self._timed, copies, state, best)

    def wait(self) -> float:
        """Wait until the latest checkpoint is written; return the seconds that writing took."""
        return self.writing.result() if self.writing else 0.0

    def close(self) -> None:
        """Finish writing, also after an error."""
        self.writer.shutdown()

    def _timed(self, kinds: Tensors, state: dict[str, Any], best: bool) -> float:
        began = time.monotonic()
        self._write(kinds, state, best)
        return time.monotonic() - began

    def _write(self, kinds: Tensors, state: dict[str, Any], best: bool) -> None:
        written = self._begin(state)
        for kind, tensors in kinds.items():
            write_tensors(tensors, written / (kind + SUFFIX))
            sync(written / (kind + SUFFIX))
        self._finish(written, state, best)

    def _begin(self, state: dict[str, Any]) -> Path:
        """Return an empty folder for the tensors of a checkpoint."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for partial in self.folder.glob(".step-*.partial"):  # left by a kill while writing or removing a checkpoint
            shutil.rmtree(partial)
        written = partial_path(self.folder / _name(state["step"]))
        written.mkdir(exist_ok=True)
        return written

    def _finish(self, written: Path, state: dict[str, Any], best: bool) -> None:
        """Make a folder with tensors the newest checkpoint."""
        name = _name(state["step"])
        sums = {path.name: file_sha256(path) for path in sorted(written.iterdir())}
        write_sealed(written / STATE, {**state, "sha256": sums})
        if best:  # written first: if the process is killed in between, the resumed run reaches this step again
            write_atomically(self.folder / "best", name)
        replace_folder(written, self.folder / name)  # a step is saved again if it is the best, or after damage
        self._remove_old(name)
        upload(self.folder)

    def steps(self) -> list[Path]:
        """Return the checkpoints, oldest first."""
        return sorted(path for path in self.folder.glob("step-*") if path.is_dir())

    def hold_updates(self) -> bool:
        """Return whether any update is saved; if so, the run resumes from it and ignores its initial weights."""
        return any(path.name > _name(0) for path in self.steps())

    def restore(self, module: nn.Module, optimizer: Optimizer) -> Restored | None:
        """Load the newest intact checkpoint into module and optimizer; return None if no update is saved."""
        if not self.hold_updates():
            return None
        damaged: list[Path] = []
        for path in reversed(self.steps()):
            if (state := _verified_state(path)) is not None:
                wanted = _tensors_of(module, optimizer)
                _load(path, find_tensors(path, state.pop("sha256")), wanted, optimizer)
                optimizer.adopt(wanted["optimizer"])
                return Restored(state, damaged)
            damaged.append(path)
        raise CheckpointError(f"every checkpoint in {self.folder} is damaged; choose another out")

    def _remove_old(self, newest: str) -> None:
        """Remove all but the newest few and the best, and damaged checkpoints of later steps."""
        best = self.folder / "best"
        kept = {best.read_text(encoding="utf-8", errors="replace")} if best.is_file() else set()
        ahead = [path for path in self.steps() if path.name > newest]
        behind = [path for path in self.steps() if path.name <= newest][: -self.keep]
        for path in [*ahead, *(path for path in behind if path.name not in kept)]:
            hidden = partial_path(path)  # a partly removed checkpoint must not look complete
            path.rename(hidden)
            shutil.rmtree(hidden)


class NoCheckpoints(Checkpoints):
    """For a run so short that it is restarted instead of resumed."""

    def __init__(self) -> None:
        super().__init__(Path(), keep=1)

    def save(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any], best: bool) -> None:
        """Do nothing."""

    def steps(self) -> list[Path]:
        return []


class SharedCheckpoints(Checkpoints):
    """The checkpoints of several processes, which all call it: each of those of the first machine writes a part.

    Together they have everything, since only the processes of a machine divide anything.
    """

    def __init__(self, folder: Path, keep: int, processes: Processes) -> None:
        super().__init__(folder, keep)
        self.processes = processes

    def save(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any], best: bool) -> None:
        if self.processes.writes:
            super().save(module, optimizer, state, best)

    def _write(self, kinds: Tensors, state: dict[str, Any], best: bool) -> None:
        written = self._begin(state) if self.processes.first else partial_path(self.folder / _name(state["step"]))
        tensors = {f"{kind}.{name}": tensor for kind, found in kinds.items() for name, tensor in found.items()}
        self.processes.write(tensors, written)
        if self.processes.first:
            self._finish(written, state, best)


def make_checkpoints(folder: Path, keep: int, processes: Processes) -> Checkpoints:
    """Return the checkpoints of a run, by the number of its processes."""
    return SharedCheckpoints(folder, keep, processes) if processes.grouped else Checkpoints(folder, keep)


def _name(step: int) -> str:
    return f"step-{step:08d}"


@torch.no_grad()
def _load(checkpoint: Path, found: dict[str, dict[str, Stored]], wanted: Tensors, optimizer: Optimizer) -> None:
    for kind, tensors in wanted.items():
        if odd := sorted(found[kind].keys() ^ tensors.keys()):
            where = "the checkpoint, not in the model" if odd[0] in found[kind] else "the model, not in the checkpoint"
            raise CheckpointError(f"{checkpoint} belongs to another model: {odd[0]} is only in {where}")
        for name, tensor in tensors.items():
            if tensor.shape != found[kind][name].shape:
                shapes = f"{found[kind][name].shape}, but the model has {tuple(tensor.shape)}"
                raise CheckpointError(f"{checkpoint} belongs to another model: {name} has shape {shapes}")
            optimizer.fill(tensor, found[kind][name].read())


def _tensors_of(module: nn.Module, optimizer: Optimizer) -> Tensors:
    """Return all tensors by kind and name, those shared between modules only once."""
    buffers = dict(module.named_buffers())
    kept = {name: tensor for name, tensor in module.state_dict().items() if name in buffers}
    return {"weights": dict(module.named_parameters()) | kept, "optimizer": optimizer.tensors()}


def _copied(tensor: Tensor) -> Tensor:
    return tensor.detach().to("cpu", copy=True)


def _verified_state(path: Path) -> dict[str, Any] | None:
    """Return the state of a checkpoint with the checksums of its files, or None if it is damaged."""
    state = read_sealed(path / STATE)
    intact = state and path.name == _name(state["step"]) and not differing_files(path, state["sha256"])
    return state if intact else None
