"""A corpus under way: what is done is kept beside its future place, so that a killed build continues.

OUT.partial/settings.json       what was asked for
OUT.partial/corpus/             the corpus so far; renamed to OUT when it is whole
OUT.partial/groups/00000.json   one finished group of text: its shards, its report, what came of its end
OUT.partial/groups/00000.npy    the keys of its documents, by which later duplicates are found
"""

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from electra.data.corpus.clean import Keys
from electra.data.corpus.shards import MANIFEST, Shard, Split
from electra.data.corpus.sieve import Dropped, Report
from electra.data.files import lock_path, locked, sync, write_atomically, write_json
from electra.errors import DataError


@dataclass(frozen=True)
class Group:
    """A finished stretch of the text, which makes one shard of each split."""

    fingerprint: str  # of all text up to its end
    fate: Split | None  # of the document that its end may have cut
    reason: str  # why that document was dropped
    shards: dict[Split, Shard]
    report: Report


class Unfinished:
    """The folder of a corpus under way."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.folder = out.with_name(out.name + ".partial")
        self.corpus = self.folder / "corpus"
        self.groups = self.folder / "groups"
        self._first_group = self.groups / "00000.json"

    def _strange(self) -> str | None:
        """Name something in the folder that is not ours."""
        names = (path.name for path in self.folder.iterdir()) if self.folder.is_dir() else ()
        ours = {"settings.json", self.corpus.name, self.groups.name}
        return next((name for name in names if name not in ours and not name.startswith(".settings.json")), None)

    @contextmanager
    def opened(self, settings: Mapping[str, Any]) -> Iterator[None]:
        """Hold the folder for this process alone and check that it is of the same settings."""
        if strange := self._strange():
            raise DataError(
                f"{self.folder}, where the corpus would be built, holds {strange}; move it, or choose another --out"
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(lock_path(self.out), DataError(f"another process is building {self.out}; wait for it")):
            self._check_settings(json.loads(json.dumps(settings)))
            self.corpus.mkdir(exist_ok=True)
            self.groups.mkdir(exist_ok=True)
            try:
                yield
            finally:
                if not self._first_group.is_file():  # nothing is lost by starting over
                    self.discard()

    def _check_settings(self, settings: Mapping[str, Any]) -> None:
        path = self.folder / "settings.json"
        if not path.is_file() or not self._first_group.is_file():  # new, or killed before its first group was done
            shutil.rmtree(self.corpus, ignore_errors=True)
            shutil.rmtree(self.groups, ignore_errors=True)
            write_json(path, settings)
            return
        earlier = json.loads(path.read_text(encoding="utf-8"))
        changed = [key for key in settings if settings[key] != earlier.get(key)]
        if changed:
            raise DataError(
                f"{self.folder} holds an unfinished build with another {', '.join(changed)}; "
                f"run that one again to finish it, or remove the folder to start over"
            )

    def finished_groups(self) -> list[Group]:
        """Read what earlier runs finished, as far as all its files are there."""
        groups: list[Group] = []
        while (path := self.groups / f"{len(groups):05d}.json").is_file():
            values = json.loads(path.read_text(encoding="utf-8"))
            dropped = {reason: Dropped(**counts) for reason, counts in values["report"].pop("dropped").items()}
            values["report"] = Report(**values["report"], dropped=dropped)
            values["shards"] = {split: Shard(**shard) for split, shard in values["shards"].items()}
            files = [path.with_suffix(".npy")]
            for shard in values["shards"].values():
                files += [self.corpus / shard.file, self.corpus / shard.documents_file]
            if not all(file.is_file() for file in files):
                break
            groups.append(Group(**values))
        return groups

    def keys(self, number: int) -> Keys:
        """Read the keys of a finished group's documents."""
        keys: Keys = np.load(self.groups / f"{number:05d}.npy")
        return keys

    def finish_group(self, number: int, group: Group, keys: Keys) -> None:
        """Note a group as finished; its shards are in place."""
        np.save(self.groups / f"{number:05d}.npy", keys)
        sync(self.groups / f"{number:05d}.npy")
        write_atomically(self.groups / f"{number:05d}.json", json.dumps(asdict(group)))

    def publish(self) -> None:
        """Move the whole corpus to its place in one step."""
        for path in [*self.corpus.rglob("*"), self.corpus]:
            sync(path)
        if self.out.is_dir():
            self.out.rmdir()  # it is empty; Windows does not rename onto a folder
        self.corpus.rename(self.out)
        self.discard()

    def discard(self) -> None:
        """Remove the folder; without its settings, what a kill may leave of it is not taken for work done."""
        if self._strange():  # another's folder of that name
            return
        (self.folder / "settings.json").unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def check_place(out: Path) -> bool:
    """Say whether a corpus is at `out` already; refuse a place that something else takes."""
    if (out / MANIFEST).is_file():
        return True
    if out.is_mount():
        raise DataError(f"{out} is a volume of its own, which nothing can take the place of; name a folder in it")
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise DataError(f"{out} exists and is no corpus; choose another --out")
    return False
