"""Find a model by name: a local file or folder, or a repository of the Hugging Face Hub."""

from collections.abc import Sequence
from pathlib import Path

from electra.data.files import exists
from electra.errors import ElectraError

EMBEDDED = "embedded"  # the name of the model that comes with the package


def locate(name: str | Path, patterns: Sequence[str], error: type[ElectraError]) -> Path:
    """Return the local path of a file, folder or hub repository; of the latter, only `patterns` are fetched.

    `embedded` is the model that comes with the package; a folder of that name is `./embedded`.
    """
    if name == EMBEDDED:
        return Path(__file__).parents[2] / EMBEDDED
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
        raise error(f"no folder {name}, and no such model on the Hugging Face Hub: {reason}") from None
