"""Enter runs into the ledger: their configs, their thinned curves and the scores of their fine-tuned models.

python runs/ledger.py NAME --model TITLE RUN TUNED [RUN TUNED]... [--model ...]... [--headline] [--lines 200]

NAME is that of a new entry, or that of an existing one with its date, which gets more runs: then models of the same
TITLE continue their rows, and the README.md is left as it is.

RUN is a pre-training run, or - for an untrained network; TUNED is a folder of `electra glue --out`, or - for none.
Each --model is a row. Several runs in it are pre-training seeds of one model: its cost is that of the first, as the
others may share a GPU; its scores are those of all fine-tuning seeds, at the learning rate that was best for the first
run; the interval is that of the means of the runs. Several rows with the same TITLE form a curve. --headline adds the
scores to the table in docs/scores.md.
"""

import argparse
import datetime
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from electra.config.load import load_config
from electra.recipes.flops import count_flops
from electra.recipes.results import Results, summarize_seeds
from electra.training.run import read_records

RESULTS = Path(__file__).parents[1] / "results"
NONE = "-"
KEPT = "metric protocol start train_file dev_file learning_rate".split()


def enter(name: str, models: Sequence[Sequence[str]], headline: bool = False, lines: int = 200) -> Path:
    """Write a ledger entry from rows of a title, runs and their fine-tuned runs, or extend one; return its folder."""
    runs = [Path(run) for _, *places in models for run in places[::2] if run != NONE]
    existing = (RESULTS / name).is_dir()
    folder = RESULTS / (name if existing else f"{datetime.date.today().isoformat()}-{name}")
    folder.mkdir(parents=True, exist_ok=True)
    scores = folder / "scores.json"
    content: dict[str, Any] = {"headline": headline, "points": []}
    if existing and scores.is_file():
        content = json.loads(scores.read_text())
    known = {point["model"]: point for point in content["points"]}
    if len(known) < len(content["points"]):
        raise ValueError(f"{folder} has a curve, rows of one title, which get no more runs")
    for run in runs:
        stem = f"{run.parent.name}-{run.name}".lstrip("-")
        config, curve = ("config", "metrics") if len(runs) == 1 and not existing else (stem, stem)
        if existing and (folder / f"{config}.toml").exists():
            raise ValueError(f"{folder} has {config}.toml, so this run was entered before")
        (folder / f"{config}.toml").write_text(placeless((run / "config.toml").read_text()))
        kept = thinned(_records(run), lines)
        (folder / f"{curve}.jsonl").write_text("".join(json.dumps(rounded(record)) + "\n" for record in kept))
    for title, *places in models:
        tuned = places[1::2]
        if NONE in tuned:
            continue
        if title in known:
            known[title]["scores"] = pooled_scores(tuned, known[title]["scores"])
        else:
            content["points"].append({"model": title, **cost(places[0]), "scores": pooled_scores(tuned)})
    if content["points"]:
        scores.write_text(json.dumps(rounded(content), indent=1) + "\n")
    return folder


def placeless(config: str) -> str:
    """Shorten absolute paths to their last part, which keeps private folder names out of the ledger."""
    return re.sub(r'"/[^"]*/([^"/]+)"', r'"\1"', config)


def cost(run: str) -> dict[str, float]:
    """Return the cost of a pre-training run, including its first stage if it has one."""
    total = {"steps": 0, "tokens": 0, "seconds": 0.0, "flops": 0.0}
    for stage in (Path(run), Path(run, "first_stage")):
        if run != NONE and stage.is_dir():
            end = next(record for record in reversed(_records(stage)) if "tokens" in record)
            config = load_config(stage / "config.toml")
            length = config.train.length
            each = count_flops(config.model, config.objective, length).train / length
            total["steps"] += end["step"]
            total["tokens"] += end["tokens"]
            total["seconds"] += end["seconds"]
            total["flops"] += each * end["tokens"]
    return total


def pooled_scores(tuned: Sequence[str], known: Mapping[str, Results] | None = None) -> dict[str, Results]:
    """Return the results to keep, by task, with the seeds of all folders and those already known together.

    Of several learning rates the best for the first run counts, whose `sweep` has the medians of all.
    """
    folders, known = [Path(folder) for folder in tuned], known or {}
    tasks = sorted({path.parent.name for folder in folders for path in folder.glob("*/results.json")} | known.keys())
    return {task: _pooled([folder / task for folder in folders], known.get(task)) for task in tasks}


def _pooled(folders: Sequence[Path], known: Results | None) -> Results:
    first = known or _results(folders[0])
    others = folders if known else folders[1:]
    runs = [*_runs(first), *(_with_rate(folder, first["learning_rate"]) for folder in others)]
    counts = [len(results["seeds"]) for results in runs]
    if len(set(counts)) > 1:
        raise ValueError(f"{', '.join(map(str, folders))}: not the same number of seeds: {counts}")
    return _together(runs) | ({"sweep": first["sweep"]} if "sweep" in first else {})


def _runs(results: Results) -> list[Results]:
    """Return the results of each pre-training run."""
    runs: dict[int, list[Any]] = {}
    for seed in results["seeds"]:
        runs.setdefault(seed.get("run", 0), []).append(seed)
    return [results | {"seeds": seeds} for seeds in runs.values()]


def _with_rate(folder: Path, rate: float) -> Results:
    """Return the results of a fine-tuning with one of its learning rates."""
    found = [_results(folder), *map(_results, folder.glob("rate-*"))]
    for results in found:
        if results["learning_rate"] == rate:
            return results
    raise ValueError(f"{folder}: no fine-tuning with the learning rate {rate:g}, the best of the first run")


def _results(folder: Path) -> Results:
    results: Results = json.loads((folder / "results.json").read_text())
    return results


def _together(runs: Sequence[Results]) -> Results:
    """Return what is kept of fine-tunings of several pre-training runs: all seeds, with the number of the run."""
    seeds = [{"run": number, **seed} for number, results in enumerate(runs) for seed in results["seeds"]]
    found = summarize_seeds(seeds)
    if len(runs) > 1:  # seeds of one run are not independent
        means = [{"metrics": summarize_seeds(results["seeds"])["mean"]} for results in runs]
        found["interval"] = summarize_seeds(means)["interval"]
    return {key: runs[0][key] for key in KEPT if key in runs[0]} | found | {"seeds": seeds}


def thinned(records: Sequence[dict[str, Any]], lines: int) -> list[dict[str, Any]]:
    """Keep all evaluations and warnings, and about `lines` evenly spaced training records."""
    logged = [record for record in records if "tokens_per_second" in record]
    every = max(1, len(logged) // lines)
    chosen = {id(record) for record in logged[every - 1 :: every]}
    return [record for record in records if "tokens_per_second" not in record or id(record) in chosen]


def rounded(value: Any) -> Any:
    """Round every number to five digits."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def _records(run: Path) -> list[dict[str, Any]]:
    return read_records(run / "metrics.jsonl")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--model", nargs="+", action="append", required=True, metavar=("TITLE", "RUN TUNED"))
    parser.add_argument("--headline", action="store_true")
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    for title, *places in options.model:
        if not places or len(places) % 2:
            parser.error(f"--model {title}: after the title come pairs of RUN and TUNED, not {len(places)} folders")
    folder = enter(options.name, options.model, options.headline, options.lines)
    print(f"{folder}: write its README.md (heading, **Result.**, commands, what was learned), then run: make docs")
