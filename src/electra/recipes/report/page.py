"""Write the report as one self-contained page with data, scripts and style."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from electra import __version__
from electra.config.finetune import FinetuneConfig
from electra.config.keys import keys_of_tags
from electra.config.schema import PretrainConfig
from electra.config.section import Root
from electra.data.files import begins_without, to_json, write_atomically
from electra.data.reading.sources import names_of
from electra.errors import ConfigError
from electra.recipes.report.gather import Data, gather

PARTS = resources.files("electra.recipes.report") / "parts"
SCRIPTS = ("elements.js", "charts.js", "sections.js")  # in this order
SCHEMAS: dict[str, type[Root]] = {"pretraining": PretrainConfig, "finetuning": FinetuneConfig}


def report(runs: str | Path | Sequence[str | Path], out: str | Path | None = None) -> Data:
    """Return the data of a report of some runs, and write it as a page if `out` is given."""
    sources = names_of(runs)
    if not sources:
        raise ConfigError("no runs to report; name at least one")
    found = gather(sources)
    configured = {kind: [run for run in found if run["kind"] == kind and run["config"]] for kind in SCHEMAS}
    configs = [_compare(kind, alike) for kind, alike in configured.items() if alike]
    data: Data = {"electra": __version__, "runs": found, "configs": configs}
    if out is not None:
        _write(data, Path(out).expanduser())
    return data


def _compare(kind: str, runs: Sequence[Data]) -> Data:
    """Compare the configs of runs of a kind: the keys that differ, or all keys of a single run."""
    known = [keys_of_tags(SCHEMAS[kind], run["config"]) for run in runs]
    rows = []
    for key in dict.fromkeys(key for run in runs for key in run["config"]):
        values = [run["config"].get(key) for run in runs]
        if len(runs) == 1 or (key != "out" and any(value != values[0] for value in values)):
            meanings = dict.fromkeys(str(keys[key].description) for keys in known if key in keys)
            rows.append({"key": key, "meaning": "; ".join(meanings) or "key from another version", "values": values})
    return {"kind": kind, "runs": [run["name"] for run in runs], "rows": rows}


def _write(data: Data, path: Path) -> None:
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give a file name, such as {path / 'report.html'}")
    if begins_without(path, "<title>Training report</title>"):  # of the page
        raise ConfigError(f"{path} exists and is not a report of electra; choose another --out")
    path.parent.mkdir(parents=True, exist_ok=True)
    page = _part("page.html").replace("/*CSS*/", _part("page.css")).replace("/*JS*/", "".join(map(_part, SCRIPTS)))
    # Escape "<", the only character that could end the script element early.
    inert = to_json(data, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    write_atomically(path, page.replace("/*DATA*/", inert))


def _part(name: str) -> str:
    return (PARTS / name).read_text(encoding="utf-8")
