"""Where a name leads: a folder of this machine, or a repository of the Hugging Face hub."""

from collections.abc import Sequence
from pathlib import Path

from electra.data.files import exists
from electra.errors import ElectraError


def locate(name: str | Path, patterns: Sequence[str], error: type[ElectraError]) -> Path:
    """Give the folder or file that a name means; of a hub repository only files of these patterns are fetched."""
    path = Path(name)
    if exists(path) and str(name).strip():
        return path.expanduser()
    if path.is_absolute() or str(name).startswith(".") or len(path.parts) > 2:
        raise error(f"no file or folder {name}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(str(name), allow_patterns=list(patterns)))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as problem:
        reason = str(problem).strip().splitlines()[0]
        raise error(f"no folder {name} here, and the hub does not give a model of that name: {reason}") from None
