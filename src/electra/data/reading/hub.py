"""Find a model by name: a local file or folder, an address, or a repository of the Hugging Face Hub."""

from collections.abc import Sequence
from pathlib import Path

from electra.data.checksums import CHECKSUMS
from electra.data.files import exists
from electra.data.storage import fetch_folder, is_remote
from electra.errors import ElectraError

EMBEDDED = "embedded"  # the name of the model that comes with the package
PLACES = ("", "model/", "tokenizer/")  # of a model in a run, of a tokenizer in a corpus
RECORDS = ("config.toml", "inputs.json", "metrics.jsonl", "results.json")  # of a run: how its model was trained


def locate(name: str | Path, patterns: Sequence[str], error: type[ElectraError]) -> Path:
    """Return the local path of a file, folder, address or hub repository; only `patterns` are fetched.

    `embedded` is the model that comes with the package; a folder of that name is `./embedded`.
    """
    if not str(name).strip():
        raise error("the name of a model or tokenizer is empty")
    if name == EMBEDDED:
        return Path(__file__).parents[2] / EMBEDDED
    if is_remote(name):
        return _fetched(str(name), patterns)
    path = Path(name)
    if exists(path):
        return path.expanduser()
    if path.is_absolute() or str(name).startswith(".") or len(path.parts) > 2:
        raise error(f"no file or folder {name}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(name), allow_patterns=list(patterns)))
    except (HfHubHTTPError, HFValidationError, OSError) as problem:
        unreached = isinstance(problem, LocalEntryNotFoundError)
        hub = "the Hugging Face Hub cannot be reached" if unreached else "no such model on the Hugging Face Hub"
        from electra.config.keys import did_you_mean

        said = str(problem.__cause__ if unreached and problem.__cause__ else problem).strip().splitlines()[0]
        raise error(f"no folder {name}, and {hub}: {said}{did_you_mean(str(name), _neighbors(path))}") from None


def _neighbors(path: Path) -> list[str]:
    """Return what is in the folder that a path would be in."""
    return [str(path.with_name(place.name)) for place in path.parent.iterdir()] if path.parent.is_dir() else []


def _fetched(address: str, patterns: Sequence[str]) -> Path:
    """Return a local copy of a model folder, a run without its checkpoints, or a file with what is next to it."""
    folder, _, last = address.rpartition("/")
    if last in patterns:
        return fetch_folder(folder, [*patterns, CHECKSUMS]) / last
    wanted = [place + pattern for place in PLACES for pattern in (*patterns, CHECKSUMS)]
    return fetch_folder(address, [*wanted, *RECORDS])
