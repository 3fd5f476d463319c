"""Put a run into the ledger: its config, its curve, thinned, and the scores of what was fine-tuned from it.

python runs/ledger.py NAME --run RUN [--tuned FOLDER_OF_FINETUNED_RUNS]... [--points 200]
"""

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
KEPT = (
    "task",
    "metric",
    "protocol",
    "start",
    "train_file",
    "learning_rate",
    "median",
    "mean",
    "std",
    "interval",
    "seeds",
)


def thinned(lines: list[str], points: int) -> list[dict[str, Any]]:
    """Keep what was held out and what was warned of, and of the rest as many lines as are wanted, evenly."""
    records = [json.loads(line) for line in lines]
    logged = [record for record in records if "tokens_per_second" in record]
    every = max(1, len(logged) // points)
    chosen = {id(record) for record in logged[every - 1 :: every]}
    return [record for record in records if "tokens_per_second" not in record or id(record) in chosen]


def rounded(value: Any) -> Any:
    """Round every number to what a curve shows."""
    if isinstance(value, dict):
        return {key: rounded(part) for key, part in value.items()}
    if isinstance(value, list):
        return [rounded(part) for part in value]
    return float(f"{value:.5g}") if isinstance(value, float) else value


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--tuned", type=Path, action="append", default=[])
    parser.add_argument("--points", type=int, default=200)
    options = parser.parse_args()
    folder = RESULTS / f"{datetime.date.today().isoformat()}-{options.name}"
    folder.mkdir(parents=True, exist_ok=True)
    if options.run:
        (folder / "config.toml").write_text((options.run / "config.toml").read_text())
        records = thinned((options.run / "metrics.jsonl").read_text().splitlines(), options.points)
        text = "".join(json.dumps(rounded(record)) + "\n" for record in records)
        (folder / "metrics.jsonl").write_text(text)
    scores = {}
    for tuned in options.tuned:
        for path in sorted(tuned.glob("*/results.json")):
            results = json.loads(path.read_text())
            scores[str(path.parent.relative_to(tuned.parent))] = {key: results[key] for key in KEPT if key in results}
    if scores:
        (folder / "scores.json").write_text(json.dumps(rounded(scores), indent=1) + "\n")
    print(f"{folder}: write README.md (command, cost, what was learned) and a line in {RESULTS / 'README.md'}")


if __name__ == "__main__":
    main()
