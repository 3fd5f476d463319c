"""Enter runs into the ledger: their configs, their thinned curves and the scores of their fine-tuned models.

python runs/ledger.py NAME --model TITLE RUN TUNED [--model TITLE RUN TUNED]... [--headline] [--lines 200]

RUN is a pre-training run, or - for an untrained network; TUNED is a folder of `electra glue --out`, or - for none.
Several points with the same TITLE form a curve. --headline adds the scores to the table in the README.
"""

import argparse
import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from electra.config.load import load_config
from electra.recipes.flops import count_flops
from electra.training.run import read_records

RESULTS = Path(__file__).parents[1] / "results"
NONE = "-"
KEPT = "metric protocol start train_file dev_file learning_rate sweep median mean std interval seeds".split()


def enter(name: str, models: Sequence[Sequence[str]], headline: bool = False, lines: int = 200) -> Path:
    """Write a ledger entry from titles, runs and fine-tuned runs, and return its folder."""
    runs = [Path(run) for _, run, _ in models if run != NONE]
    folder = RESULTS / f"{datetime.date.today().isoformat()}-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        stem = f"{run.parent.name}-{run.name}".lstrip("-")
        config, curve = ("config", "metrics") if len(runs) == 1 else (stem, stem)
        (folder / f"{config}.toml").write_text(placeless((run / "config.toml").read_text()))
        kept = thinned(_records(run), lines)
        (folder / f"{curve}.jsonl").write_text("".join(json.dumps(rounded(record)) + "\n" for record in kept))
    points = [{"model": title, **cost(run), "scores": scores(tuned)} for title, run, tuned in models if tuned != NONE]
    if points:
        content = {"headline": headline, "points": rounded(points)}
        (folder / "scores.json").write_text(json.dumps(content, indent=1) + "\n")
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


def scores(tuned: str) -> dict[str, Any]:
    """Return the results to keep, by task."""
    found = [json.loads(path.read_text()) for path in sorted(Path(tuned).glob("*/results.json"))]
    return {results["task"]: {key: results[key] for key in KEPT if key in results} for results in found}


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
    parser.add_argument("--model", nargs=3, action="append", required=True, metavar=("TITLE", "RUN", "TUNED"))
    parser.add_argument("--headline", action="store_true")
    parser.add_argument("--lines", type=int, default=200)
    options = parser.parse_args()
    folder = enter(options.name, options.model, options.headline, options.lines)
    print(f"{folder}: add a README.md (heading, **Result.**, commands, what was learned), then run: make docs")
