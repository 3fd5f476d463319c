"""The state of an unfinished build, kept in OUT.partial so that an interrupted build can resume.

OUT.partial/settings.json       the settings of the build
OUT.partial/corpus/             the corpus so far; renamed to OUT when it is complete
OUT.partial/groups/00000.json   a finished group: its shards, its report and the split of its last document
OUT.partial/groups/00000.npy    the keys of its documents, for finding later duplicates

Everything has a checksum: a damaged group and those after it are built again.
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from electra.data.corpus.clean import Keys
from electra.data.corpus.shards import MANIFEST, Shard, Split
from electra.data.corpus.sieve import Dropped, Report
from electra.data.files import (
    differing_files,
    file_sha256,
    lock_path,
    locked,
    read_sealed,
    save_array,
    sync,
    write_sealed,
)
from electra.data.storage import copy_files, is_remote, list_files, local_path, upload
from electra.errors import DataError

PARTIAL = ".partial"


@dataclass(frozen=True)
class Group:
    """A finished part of the text: one shard of each split."""

    fingerprint: str  # of all text up to the end of this group
    fate: Split | None  # split of the last document, which may continue in the next group
    reason: str  # why that document was dropped
    shards: dict[Split, Shard]
    report: Report


class Unfinished:
    """The folder of an unfinished build."""

    def __init__(self, out: str | Path) -> None:
        self.address = out if is_remote(out) else None
        self.out = local_path(out)
        self.name = f"{out}{PARTIAL}"
        self.folder = local_path(self.name)
        self.corpus = self.folder / "corpus"
        self.groups = self.folder / "groups"
        self._first_group = self.groups / "00000.json"

    def _foreign(self) -> str | None:
        """Return the name of a file in the folder that no build has written."""
        names = (path.name for path in self.folder.iterdir()) if self.folder.is_dir() else ()
        ours = {"settings.json", self.corpus.name, self.groups.name}
        return next((name for name in names if name not in ours and not name.startswith(".settings.json")), None)

    @contextmanager
    def opened(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Lock the folder and check that its build has the same settings."""
        if foreign := self._foreign():
            raise DataError(
                f"{self.folder} is needed for the build but holds {foreign}; move it or choose another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        refusal = DataError(f"another process is building {self.out}; wait for it or choose another --out")
        with locked(lock_path(self.out), refusal):
            self._check_settings(json.loads(json.dumps(settings)))
            self.corpus.mkdir(exist_ok=True)
            self.groups.mkdir(exist_ok=True)
            try:
                yield
            finally:
                if not self._first_group.is_file():  # nothing would be lost
                    self.discard()

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        path = self.folder / "settings.json"
        earlier = read_sealed(path)
        if earlier is None or not self._first_group.is_file():  # new, damaged, or killed in its first group
            shutil.rmtree(self.corpus, ignore_errors=True)
            shutil.rmtree(self.groups, ignore_errors=True)
            write_sealed(path, settings)
            return
        changed = [key for key in settings if settings[key] != earlier.get(key)]
        if changed:
            raise DataError(
                f"{self.folder} holds an unfinished build with a different {', '.join(changed)}; "
                f"finish it with its own settings, or remove the folder to start over"
            )

    def finished_groups(self) -> Iterator[tuple[Group, Keys]]:
        """Yield the groups that earlier runs finished and their document keys, up to the first with a damaged file."""
        for number in count():
            keys = self._keys(number)
            values = read_sealed(keys.with_suffix(".json"))
            if values is None:
                return
            checksums = {f"groups/{keys.name}": values.pop("keys_sha256")}
            dropped = {reason: Dropped(**counts) for reason, counts in values["report"].pop("dropped").items()}
            values["report"] = Report(**values["report"], dropped=dropped)
            values["shards"] = {split: Shard(**shard) for split, shard in values["shards"].items()}
            for shard in values["shards"].values():
                checksums |= {f"corpus/{file}": sha256 for file, sha256 in shard.checksums.items()}
            if differing_files(self.folder, checksums):
                return
            yield Group(**values), np.load(keys)

    def finish_group(self, number: int, group: Group, keys: Keys) -> None:
        """Mark a group as finished, after its shards were written."""
        path = self._keys(number)
        save_array(path, keys)
        write_sealed(path.with_suffix(".json"), {**asdict(group), "keys_sha256": file_sha256(path)})
        upload(self.folder)

    def _keys(self, number: int) -> Path:
        return self.groups / f"{number:05d}.npy"

    def publish(self) -> None:
        """Move the complete corpus to its final place, without hidden files that a killed process was writing."""
        for path in self.corpus.rglob(".*"):
            path.unlink()
        for path in [*self.corpus.rglob("*"), self.corpus]:
            sync(path)
        if self.address:
            upload(self.folder)
            copy_files(f"{self.name}/{self.corpus.name}", str(self.address))
        else:
            if self.out.is_dir():
                self.out.rmdir()  # empty; Windows cannot rename onto an existing folder
            self.corpus.rename(self.out)
        self.discard()

    def discard(self) -> None:
        """Remove the folder, settings first: without them, remains of an interrupted removal are ignored."""
        if self._foreign():  # not a folder of ours
            return
        (self.folder / "settings.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def check_place(out: str | Path) -> bool:
    """Return whether a corpus exists at `out`; raise an error if something else does."""
    if is_remote(out):
        found = list_files(str(out))
        if found and MANIFEST not in found and not list_files(f"{out}{PARTIAL}"):
            raise DataError(f"{out} holds {min(found)} and is not a corpus; choose another --out")
        return MANIFEST in found
    out = Path(out)
    if (out / MANIFEST).is_file():
        return True
    if out.resolve().is_mount():  # "." seems to be one before Python 3.12
        raise DataError(f"{out} is a mount point and cannot be replaced; choose a folder inside it")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists and is not a corpus; choose another --out")
    return False
