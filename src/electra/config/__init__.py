"""One frozen config that is written next to every result."""

from importlib import resources

PRESETS = resources.files("electra.config") / "presets"  # a folder for each command that uses some


def preset_names(command: str = "pretrain") -> list[str]:
    """Return the names of the built-in presets of a command; listed here so that `--help` does not import pydantic."""
    names = (entry.name for entry in (PRESETS / command).iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))
