"""Tensor files: safetensors, and old PyTorch files through the loader that runs no code."""

import pickle
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from electra.data.checksums import check
from electra.data.files import read_table
from electra.errors import CheckpointError

SAFE = "model.safetensors"
SAFE_INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
HEAD = "head.safetensors"  # of an ONNX folder, whose graph holds the rest
CORRECTOR = "corrector.safetensors"  # a second head, with which training can continue
PATTERNS = ("*.safetensors", SAFE_INDEX, PICKLE)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a model folder, from one or several files; floating-point tensors become float32."""
    check(folder, PATTERNS)
    if (folder / SAFE).is_file():
        tensors = read_safe(folder / SAFE)
    elif (folder / SAFE_INDEX).is_file():
        files = _indexed(folder / SAFE_INDEX)
        tensors = {name: tensor for file in files for name, tensor in read_safe(folder / file).items()}
    elif (folder / PICKLE).is_file():
        tensors = _read_pickle(folder / PICKLE)
    else:
        raise CheckpointError(f"no weights in {folder}: expected {SAFE}, {SAFE_INDEX} or {PICKLE}")
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def has_tensors(folder: Path) -> bool:
    """Return whether a folder has the weights of a model."""
    return any((folder / name).is_file() for name in (SAFE, SAFE_INDEX, PICKLE))


def read_safe(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one safetensors file."""
    file = open_safe(path)
    return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def open_safe(path: Path) -> Any:
    """Open a safetensors file, to read its tensors one by one."""
    try:
        return safe_open(path, "pt")
    except (SafetensorError, OSError) as problem:
        raise CheckpointError(f"{path} is corrupted or truncated: {problem}") from None


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors as one safetensors file that Hugging Face reads as PyTorch weights."""
    path.touch()
    mode = path.stat().st_mode  # the default for new files; safetensors creates files that only the owner can read
    try:
        stored = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        save_file(stored, path, {"format": "pt"})
    except SafetensorError as problem:
        raise CheckpointError(f"cannot write {path}: {problem}; free disk space and run the command again") from None
    path.chmod(mode)


def _indexed(index: Path) -> list[str]:
    """Return the names of the files that an index lists."""
    found = read_table(index, "an index of tensors", CheckpointError).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise CheckpointError(f"{index} is not an index of tensors: it has no weight_map from names to files")
    if outside := [file for file in found.values() if Path(file).name != file]:
        raise CheckpointError(f"{index} names {outside[0]}, which is not in this folder; do not trust this model")
    return sorted(set(found.values()))


def _read_pickle(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        if not file.read(2).startswith((b"PK", b"\x80")):  # a zip archive, or a pickle in the old format
            raise CheckpointError(f"{path} is broken or a Git LFS pointer, not a PyTorch file; download it again")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise CheckpointError(f"{path} contains more than tensors and could run code; use {SAFE} instead") from None
    except (RuntimeError, EOFError, OSError) as problem:
        raise CheckpointError(f"{path} is corrupted or truncated: {str(problem).partition(chr(10))[0]}") from None
    if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise CheckpointError(f"{path} does not contain a dictionary of tensors")
    return content
