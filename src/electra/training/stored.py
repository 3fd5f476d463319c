"""The tensors in the files of a checkpoint, read one at a time: not every process has the memory for all of them."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from electra.model.tensors import open_safe

SUFFIX = ".safetensors"
KINDS = ("weights", "optimizer")
WHERE = "DCP_SHARDING_INFO", "saved_offsets"  # torch's names for where the tensors of a file belong


class Piece(NamedTuple):
    """A part of a tensor, and where it belongs."""

    file: Any
    key: str
    place: tuple[slice, ...]


class Stored:
    """A tensor, complete in one file or in pieces in several."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the complete tensor."""
        places = zip(*(piece.place for piece in self.pieces), strict=True)
        return tuple(max(part.stop for part in along) for along in places)

    def read(self) -> Tensor:
        """Return the complete tensor."""
        parts = [piece.file.get_tensor(piece.key) for piece in self.pieces]
        tensor = torch.empty(self.shape, dtype=parts[0].dtype)
        for piece, part in zip(self.pieces, parts, strict=True):
            tensor[piece.place] = part
        return tensor


def find_tensors(folder: Path, files: Iterable[str]) -> dict[str, dict[str, Stored]]:
    """Find tensors by kind and name: in a file of each kind, or in files with the kind in the names of tensors."""
    found: dict[str, dict[str, Stored]] = {kind: {} for kind in KINDS}
    info, offsets = WHERE
    for name in files:
        file, stem = open_safe(folder / name), name.removesuffix(SUFFIX)
        begins = json.loads((file.metadata() or {}).get(info, "{}"))
        for key in file.keys():  # noqa: SIM118
            sizes = file.get_slice(key).get_shape()
            starts = begins[key][offsets] if key in begins else [0] * len(sizes)
            place = tuple(slice(start, start + size) for start, size in zip(starts, sizes, strict=True))
            kind, _, tensor = (f"{stem}.{key}" if stem in found else key).partition(".")
            found[kind].setdefault(tensor, Stored()).pieces.append(Piece(file, key, place))
    return found
