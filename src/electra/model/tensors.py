"""Tensors in files: safetensors, and old PyTorch files through the loader that runs no code."""

import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from electra.data.files import read_table
from electra.errors import CheckpointError

SAFE = "model.safetensors"
SAFE_INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
PATTERNS = ("*.safetensors", SAFE_INDEX, PICKLE)


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of a model folder, whole or in several safetensors files, as float32 where they are real."""
    if (folder / SAFE).is_file():
        tensors = read_safe(folder / SAFE)
    elif (folder / SAFE_INDEX).is_file():
        files = _indexed(folder / SAFE_INDEX)
        tensors = {name: tensor for file in files for name, tensor in read_safe(folder / file).items()}
    elif (folder / PICKLE).is_file():
        tensors = _read_pickle(folder / PICKLE)
    else:
        raise CheckpointError(f"no weights in {folder}: it has neither {SAFE} nor {PICKLE}")
    return {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def read_safe(path: Path) -> dict[str, Tensor]:
    """Read the tensors of one safetensors file."""
    try:
        return load_file(path)
    except (SafetensorError, OSError) as problem:
        raise CheckpointError(f"{path} is corrupted or cut short: {problem}") from None


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors as one safetensors file that Hugging Face reads as PyTorch weights."""
    path.touch()
    mode = path.stat().st_mode  # of any file here; safetensors makes one that its owner alone can read
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"}
        )
    except SafetensorError as problem:
        raise CheckpointError(
            f"{path} cannot be written: {problem}; make room and run the same command again"
        ) from None
    path.chmod(mode)


def _indexed(index: Path) -> list[str]:
    """Give the names of the files that a model's tensors lie in."""
    found = read_table(index, "an index of tensors", CheckpointError).get("weight_map")
    if not isinstance(found, dict) or not all(isinstance(file, str) for file in found.values()):
        raise CheckpointError(f"{index} is not an index of tensors: it has no weight_map of names to files")
    return sorted(set(found.values()))


def _read_pickle(path: Path) -> dict[str, Tensor]:
    with path.open("rb") as file:
        if not file.read(2).startswith((b"PK", b"\x80")):  # an archive of today, a pickle of old
            raise CheckpointError(f"{path} is not a file of PyTorch's: broken, or a pointer of Git LFS to one")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError:
        raise CheckpointError(f"{path} is refused: it holds more than tensors, and loading it could run code") from None
    except (RuntimeError, EOFError, OSError) as problem:
        raise CheckpointError(f"{path} is corrupted or cut short: {str(problem).partition(chr(10))[0]}") from None
    if not isinstance(content, dict) or not all(isinstance(tensor, Tensor) for tensor in content.values()):
        raise CheckpointError(f"{path} is not a table of tensors")
    return content
