"""Checkpoints: everything that a run needs to resume as if it had never stopped.

A checkpoint is a folder `step-00001000` with the weights and the optimizer's tensors as safetensors, and `state.json`
with the rest and the checksums of all three. It is written atomically: under a temporary name, then renamed.
"""

import shutil
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
    sync,
    write_atomically,
    write_sealed,
)
from electra.data.storage import upload
from electra.errors import CheckpointError
from electra.model.tensors import read_safe, write_tensors
from electra.training.optim import Optimizer

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class Restored:
    """The state of the restored checkpoint without its tensors, and newer checkpoints that were damaged."""

    state: dict[str, Any]
    damaged: list[Path]


class Checkpoints:
    """The checkpoints of a run: the newest few, and the best in case the run diverges later."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def save(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any], best: bool) -> None:
        """Write a checkpoint; `state` contains the step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = _name(state["step"])
        for partial in self.folder.glob(".step-*.partial"):  # left by a kill while writing or removing a checkpoint
            shutil.rmtree(partial)
        written = partial_path(self.folder / name)
        written.mkdir()
        tensors = {WEIGHTS: _tensors_of(module), OPTIMIZER: optimizer.tensors()}
        sums = {name: _write(found, written / name) for name, found in tensors.items()}
        write_sealed(written / STATE, {**state, "sha256": sums})
        shutil.rmtree(self.folder / name, ignore_errors=True)  # from before the run resumed at an older checkpoint
        if best:  # written first: if the process is killed in between, the resumed run reaches this step again
            write_atomically(self.folder / "best", name)
        written.rename(self.folder / name)
        sync(self.folder)
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
                _load(path / WEIGHTS, _tensors_of(module))
                _load(path / OPTIMIZER, optimizer.tensors())
                optimizer.weights.refresh(frozen=True)
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


def _name(step: int) -> str:
    return f"step-{step:08d}"


@torch.no_grad()
def _load(path: Path, wanted: dict[str, Tensor]) -> None:
    found, checkpoint = read_safe(path), path.parent
    if found.keys() != wanted.keys():
        odd = sorted(found.keys() ^ wanted.keys())[0]
        where = "the checkpoint, not in the model" if odd in found else "the model, not in the checkpoint"
        raise CheckpointError(f"{checkpoint} belongs to another model: {odd} is only in {where}")
    for name, tensor in wanted.items():
        if tensor.shape != found[name].shape:
            shapes = f"{tuple(found[name].shape)}, but the model has {tuple(tensor.shape)}"
            raise CheckpointError(f"{checkpoint} belongs to another model: {name} has shape {shapes}")
        tensor.copy_(found[name])


def _tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return all tensors by name, those shared between modules only once."""
    buffers = dict(module.named_buffers())
    kept = {name: tensor for name, tensor in module.state_dict().items() if name in buffers}
    return dict(module.named_parameters()) | kept


def _verified_state(path: Path) -> dict[str, Any] | None:
    state = read_sealed(path / STATE)
    intact = state and path.name == _name(state["step"]) and not differing_files(path, state.pop("sha256"))
    return state if intact else None


def _write(tensors: dict[str, Tensor], path: Path) -> str:
    write_tensors({name: tensor.detach().clone() for name, tensor in tensors.items()}, path)
    sync(path)
    return file_sha256(path)
