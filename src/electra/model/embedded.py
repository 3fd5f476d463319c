"""The model that comes with the package, for those who name none."""

from pathlib import Path

from electra.errors import CheckpointError

FOLDER = Path(__file__).parents[1] / "embedded"  # package data: a model folder, its generator inside


def embedded_model() -> Path | None:
    """Give the folder of the model that comes with the package, None where none does."""
    return FOLDER if FOLDER.is_dir() else None


def model_or_embedded(source: str | Path | None) -> str | Path:
    """Give the model that the user names, else the one that comes with the package."""
    found = source or embedded_model()
    if found is None:
        raise CheckpointError(
            "which model? name a run, a Hugging Face folder or a hub name; none comes with electra yet"
        )
    return found
