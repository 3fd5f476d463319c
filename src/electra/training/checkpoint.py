"""Checkpoints: everything from which a run goes on as if it had never stopped.

A checkpoint is a folder `step-00001000` with the weights and the optimizer's tensors as safetensors, and `state.json`,
which holds the rest and the checksums of both. It is written beside and renamed, so that what bears the name is whole.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from electra.data.files import file_sha256, partial_path, sync, write_atomically
from electra.errors import CheckpointError
from electra.model.tensors import read_safe, write_tensors
from electra.training.optim import Optimizer

WEIGHTS, OPTIMIZER, STATE = "weights.safetensors", "optimizer.safetensors", "state.json"


@dataclass(frozen=True)
class Restored:
    """What a checkpoint says beside the tensors, and the newer checkpoints that were found damaged."""

    state: dict[str, Any]
    damaged: list[Path]


class Checkpoints:
    """The checkpoints of a run: the newest few, and the best, to go back to where a run was spoilt later."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep

    def save(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any], best: bool) -> None:
        """Write a checkpoint; `state` has the step."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = _name(state["step"])
        for left in self.folder.glob(".step-*.partial"):  # by a kill while a checkpoint was written or removed
            shutil.rmtree(left)
        written = partial_path(self.folder / name)
        written.mkdir()
        sums = {
            WEIGHTS: _write(_tensors_of(module), written / WEIGHTS),
            OPTIMIZER: _write(optimizer.tensors(), written / OPTIMIZER),
        }
        write_atomically(written / STATE, json.dumps({**state, "sha256": sums}, indent=1))
        shutil.rmtree(self.folder / name, ignore_errors=True)  # of a run that went on from an older checkpoint
        if best:  # named first: a kill before it is there costs nothing, for the run will come to it again
            write_atomically(self.folder / "best", name)
        written.rename(self.folder / name)
        sync(self.folder)
        self._forget_old_ones(name)

    def steps(self) -> list[Path]:
        """List the checkpoints, oldest first."""
        return sorted(path for path in self.folder.glob("step-*") if path.is_dir())

    def hold_updates(self) -> bool:
        """Say whether any is saved: from there a run goes on, whatever it started from."""
        return any(path.name > _name(0) for path in self.steps())

    def restore(self, module: nn.Module, optimizer: Optimizer) -> Restored | None:
        """Load the newest checkpoint that is whole into module and optimizer; None where no update is saved."""
        if not self.hold_updates():
            return None
        damaged: list[Path] = []
        for path in reversed(self.steps()):
            state = _verified_state(path)
            if state is not None:
                _load(path / WEIGHTS, _tensors_of(module))
                _load(path / OPTIMIZER, optimizer.tensors())
                optimizer.weights.refresh(frozen=True)
                return Restored(state, damaged)
            damaged.append(path)
        raise CheckpointError(f"every checkpoint in {self.folder} is damaged; choose another out")

    def _forget_old_ones(self, newest: str) -> None:
        """Remove what is older than the newest few, and what lies ahead of the run: it was damaged."""
        best = self.folder / "best"
        kept = {best.read_text(encoding="utf-8", errors="replace")} if best.is_file() else set()
        ahead = [path for path in self.steps() if path.name > newest]
        behind = [path for path in self.steps() if path.name <= newest][: -self.keep]
        for path in [*ahead, *(path for path in behind if path.name not in kept)]:
            gone = partial_path(path)  # a half-removed checkpoint must not look whole
            path.rename(gone)
            shutil.rmtree(gone)


class NoCheckpoints(Checkpoints):
    """For a run so short that it is rather started anew."""

    def __init__(self) -> None:
        super().__init__(Path(), keep=1)

    def save(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any], best: bool) -> None:
        """Write nothing."""

    def steps(self) -> list[Path]:
        """Find nothing."""
        return []


def _name(step: int) -> str:
    return f"step-{step:08d}"


@torch.no_grad()
def _load(path: Path, wanted: dict[str, Tensor]) -> None:
    found, checkpoint = read_safe(path), path.parent
    if found.keys() != wanted.keys():
        odd = sorted(found.keys() ^ wanted.keys())[0]
        raise CheckpointError(f"{checkpoint} is of another model: {odd} stands in one of the two alone")
    for name, tensor in wanted.items():
        if tensor.shape != found[name].shape:
            shapes = f"{tuple(found[name].shape)}, not {tuple(tensor.shape)}"
            raise CheckpointError(f"{checkpoint} is of another model: {name} has shape {shapes}")
        tensor.copy_(found[name])


def _tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Name every tensor once, also where modules share it."""
    return dict(module.named_parameters()) | {
        name: buffer for name, buffer in module.state_dict().items() if name in dict(module.named_buffers())
    }


def _verified_state(path: Path) -> dict[str, Any] | None:
    try:
        state: dict[str, Any] = json.loads((path / STATE).read_text(encoding="utf-8"))
        sums = state.pop("sha256")
        whole = path.name == _name(state["step"]) and all(
            file_sha256(path / name) == sums[name] for name in (WEIGHTS, OPTIMIZER)
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return state if whole else None


def _write(tensors: dict[str, Tensor], path: Path) -> str:
    write_tensors({name: tensor.detach().clone() for name, tensor in tensors.items()}, path)
    sync(path)
    return file_sha256(path)
