"""Read the folders of runs into the data of a report."""

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from electra.config.load import flatten, load_config
from electra.config.schema import PretrainConfig
from electra.data.storage import fetch_folder, inside, is_remote
from electra.errors import CheckpointError, ConfigError
from electra.recipes.flops import flops_per_token
from electra.recipes.hardware import ENVIRONMENT
from electra.recipes.report.explain import explain_warnings
from electra.recipes.results import read_seed
from electra.recipes.verdict import doctor
from electra.training.run import FIRST_STAGE, Record, Run, read_part, read_records

Data = dict[str, Any]  # JSON-compatible
FILES = ("metrics.jsonl", "results.json")  # a folder with one of them is a run
PARTS = ("", f"{FIRST_STAGE}/", "rate-*/", "seeds/*/", "rate-*/seeds/*/")  # folders of a run that are read
SMALL_FILES = [
    f"{suite}{part}{name}" for suite in ("", "*/") for part in PARTS for name in ("*.toml", "*.json", "*.jsonl")
]
MOST_POINTS, ALL_POINTS = 400, 8000  # per curve, and per metric over all runs
MOST_SAMPLES = 5  # steps at which sample sentences are shown
POSITION = ("step", "tokens", "seconds")
NO_METRICS = (*POSITION, "progress", "warning")
UNSEEN = "heldout_"  # prefix of metrics on held-out text


def gather(sources: Sequence[str | Path]) -> list[Data]:
    """Return the data of each run; a folder of runs, such as a suite, means all of its runs."""
    runs = {run: place for source in sources for run, place in _runs(source).items()}
    points = max(20, min(MOST_POINTS, ALL_POINTS // len(runs)))
    names = short_names(list(runs.values()))
    return [
        {"name": name, "folder": place, **_run(run, points)}
        for (run, place), name in zip(runs.items(), names, strict=True)
    ]


def _runs(source: str | Path) -> dict[Path, str]:
    """Return the folder itself if it is a run, or else the runs directly inside it, each with its place."""
    if is_remote(source):
        copy = fetch_folder(str(source), SMALL_FILES)
        return {run: str(source) if run == copy else inside(source, run.name) for run in _local_runs(copy)}
    return {run: str(run) for run in _local_runs(Path(source).expanduser())}


def _local_runs(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise CheckpointError(f"no run at {folder}; give a run or a folder of runs")
    found = [path for path in (folder, *sorted(folder.iterdir())) if _is_run(path)]
    if not found:
        raise CheckpointError(f"{folder} has nothing to report: no {' or '.join(FILES)} in it or its subfolders")
    return [folder] if folder in found else found


def _is_run(folder: Path) -> bool:
    """Return whether a folder is a run, perhaps a fine-tuning without results yet."""
    return any((folder / name).is_file() for name in FILES) or bool(_files(folder, "seeds/*/metrics.jsonl"))


def short_names(places: Sequence[str | Path]) -> list[str]:
    """Return the shortest endings of paths and addresses that are unique."""
    parts = [str(place).split("/") if is_remote(place) else Path(place).resolve().parts for place in places]
    for depth in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-depth:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    return [str(place) for place in places]


def _run(folder: Path, points: int) -> Data:
    run = Run(folder)
    records = read_records(run.metrics)
    training = [record for record in records if "learning_rate" in record]
    heldout = [record for record in records if any(name.startswith(UNSEEN) for name in record)]
    config, results = flatten(read_part(run.config) or {}), read_part(folder / "results.json")
    pretraining = "objective.name" in config or not (config or results)
    settings, problem = _settings(folder) if config and pretraining else (None, None)
    per_token = flops_per_token(settings) if settings else None
    before, state = _before(folder), _state(records)
    seeds = [record for path in _files(folder, "seeds/*/metrics.jsonl") for record in read_records(path)]
    return {
        "kind": "pretraining" if pretraining else "finetuning",
        "config": config,
        "state": state,
        **(_judged(settings, records, heldout) if settings and heldout else {"verdict": None, "expected": None}),
        "latest": _latest(training, heldout),
        "curves": {"training": _curves(training, points), "heldout": _curves(heldout, points)},
        "flops_per_token": per_token,
        "flops_problem": problem,
        "before": before,
        "cost": _cost(folder, state, training, per_token, before),
        "environment": next((found for path in _files(folder, ENVIRONMENT) if (found := read_part(path))), []),
        "warnings": explain_warnings(records + seeds),
        "samples": _spread(read_records(run.samples), MOST_SAMPLES),
        "results": results,
    }


def _files(folder: Path, pattern: str) -> list[Path]:
    """Return the matching files of a run and of the runs of its learning rate sweep."""
    return [path for place in (folder, *sorted(folder.glob("rate-*"))) for path in sorted(place.glob(pattern))]


def _before(folder: Path) -> Data:
    """Return the cost of the first stage of a two-stage pre-training run, or zeros."""
    first = folder / FIRST_STAGE
    state = _state(read_records(first / "metrics.jsonl"))
    if state is None:
        return {"tokens": 0, "seconds": 0.0, "flops": 0.0}
    settings, _ = _settings(first)
    flops = settings and flops_per_token(settings) * state["tokens"]
    return {"tokens": state["tokens"], "seconds": state["seconds"], "flops": flops}


def _settings(folder: Path) -> tuple[PretrainConfig | None, str | None]:
    """Return the config of a run, or the error."""
    try:
        return load_config(folder), None
    except ConfigError as problem:
        return None, str(problem)


def _judged(config: PretrainConfig, records: Sequence[Record], heldout: Sequence[Record]) -> Data:
    """Return the verdict on a run, and the range that is expected at each of its positions."""
    judge = doctor(config)
    verdict, band = judge.verdict(heldout[-1]), judge.band
    placed = [record for record in records if record.keys() >= {*POSITION}]
    tokens = [record["tokens"] for record in placed]
    expected = None
    if band and tokens and tokens[-1] >= band.tokens[0]:
        points = [count for count in band.tokens if tokens[0] < count < tokens[-1]] + [tokens[-1]]
        places = {key: np.interp(points, tokens, [record[key] for record in placed]).tolist() for key in POSITION}
        low, high = zip(*map(band.at, points), strict=True)
        expected = {"metric": band.metric, **places, "low": low, "high": high}
    return {"verdict": verdict and verdict.sentence, "expected": expected}


def _state(records: Sequence[Record]) -> Data | None:
    """Return the progress of a pre-training run and the time left at the same pace."""
    placed = [record for record in records if record.keys() >= {*POSITION, "progress"}]
    if not placed:
        return None
    last = placed[-1]
    done, first = last["progress"], next((record for record in placed if "learning_rate" in record), last)
    gone = done - first["progress"]
    left = (last["seconds"] - first["seconds"]) * (1 - done) / gone if gone > 0 else None
    return {"finished": done >= 1, "progress": done, "seconds_left": left, **{key: last[key] for key in POSITION}}


def _latest(training: Sequence[Record], heldout: Sequence[Record]) -> Data:
    """Return the newest metrics; held-out metrics of step 0 only count if there are no training metrics."""
    measured = heldout[-1] if heldout and (heldout[-1]["step"] or not training) else {}
    return {
        "training": {
            name: value for name, value in (training[-1] if training else {}).items() if name not in NO_METRICS
        },
        "heldout": {name.removeprefix(UNSEEN): value for name, value in measured.items() if name.startswith(UNSEEN)},
    }


def _cost(
    folder: Path, state: Data | None, training: Sequence[Record], per_token: float | None, before: Data
) -> Data | None:
    """Return the cost of pre-training, including its first stage, or of fine-tuning with all seeds."""
    if state is None:
        seeds = [read_seed(path) for path in _files(folder, "seeds/*/result.json")]
        return {"seconds": sum(seed["seconds"] for seed in seeds)} if seeds else None
    known = per_token is not None and before["flops"] is not None
    return {
        "seconds": state["seconds"] + before["seconds"],
        "tokens": state["tokens"] + before["tokens"],
        "flops": (per_token or 0.0) * state["tokens"] + before["flops"] if known else None,
        "tokens_per_second": _median(training, "tokens_per_second"),
        "peak_share": _median(training, "peak_share"),
    }


def _median(records: Sequence[Record], name: str) -> float | None:
    values = [record[name] for record in records if record.get(name) is not None]
    return statistics.median(values) if values else None


def _curves(records: Sequence[Record], points: int) -> dict[str, list[float | None]]:
    """Return positions and metrics as columns of at most `points` rows; all but the last row average neighbors."""
    keys = dict.fromkeys(key for record in records for key in record)
    names = [*(key for key in keys if key in POSITION), *(key for key in keys if key not in NO_METRICS)]
    before, last = records[:-1], records[-1:]
    size = max(1, -(-len(before) // (points - 1)))
    groups = [*(before[start : start + size] for start in range(0, len(before), size)), *([last] if last else [])]
    return {name.removeprefix(UNSEEN): [_mean(group, name) for group in groups] for name in names}


def _mean(records: Sequence[Record], name: str) -> float | None:
    values = [record[name] for record in records if record.get(name) is not None]
    return float(f"{statistics.fmean(values):.6g}") if values else None


def _spread(records: Sequence[Record], count: int) -> list[Record]:
    """Return `count` records spread evenly over the steps, including the first and the last."""
    wanted = [records[-1]["step"] * place / (count - 1) for place in range(count)] if records else []
    chosen = {min(range(len(records)), key=lambda index: abs(records[index]["step"] - step)) for step in wanted}
    return [records[index] for index in sorted(chosen)]
