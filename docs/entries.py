"""Read the ledger, results/, and build the tables of the pages from it.

Each folder has a README.md with a heading, its row in the index, and a `**Result.**` paragraph. It may also have
NAME.toml and NAME.jsonl, the config and metrics of a run (config.toml and metrics.jsonl if there is only one);
scores.json, written by `runs/ledger.py`; and tables as CSV.
"""

import csv
import json
import re
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "results"
GLUE = {"cola": "CoLA", "sst-2": "SST-2", "mrpc": "MRPC", "sts-b": "STS-B", "rte": "RTE", "qnli": "QNLI"}
TASKS = GLUE | {"squad-1.1": "SQuAD 1.1", "chunking": "CoNLL-2000"}  # columns of the tables, in order
PUBLISHED = ("Small-OWT", "ELECTRA-Small-OWT, as published (OpenWebText, 1 M steps)")  # name in recipes/glue.py; title


@dataclass(frozen=True)
class Point:
    """A fine-tuned model: the cost of its pre-training and the `results.json` of each task."""

    model: str
    steps: int
    tokens: int
    seconds: float
    flops: float
    scores: dict[str, Any]

    def cell(self, task: str) -> str:
        """Format a task's score in percent; with several seeds: median ± standard deviation (number of seeds).

        After several pre-training runs the number is that of the runs × that of the seeds of each.
        """
        if task not in self.scores:
            return ""
        score = self.scores[task]
        metric, count, runs = score["metric"], len(score["seeds"]), self.runs(task)
        median, deviation = 100 * score["median"][metric], 100 * score["std"][metric]
        seeds = f"{runs} × {count // runs}" if runs > 1 else f"{count}"
        return f"{median:.1f} ± {deviation:.1f} ({seeds})" if count > 1 else f"{median:.1f}"

    def runs(self, task: str) -> int:
        """Return the number of pre-training runs that a task's seeds start from."""
        return len({seed.get("run", 0) for seed in self.scores[task]["seeds"]})

    def seeds(self, task: str, run: int | None = None) -> list[float]:
        """Return the scores of a task's seeds, or of those that start from one pre-training run, in percent."""
        seeds = [seed for seed in self.scores[task]["seeds"] if run in (None, seed.get("run", 0))]
        return [100 * seed["metrics"][self.scores[task]["metric"]] for seed in seeds]

    def samples(self, tasks: Sequence[str]) -> list[list[float]]:
        """Return independent samples whose means add up to the mean over the tasks, in percent.

        After one pre-training run these are the seeds of each task. Seeds of one of several runs are not independent
        of each other, so there the sample is one number per run.
        """
        runs = max(map(self.runs, tasks), default=1)
        if runs == 1:
            return [[score / len(tasks) for score in self.seeds(task)] for task in tasks]
        mean = statistics.fmean
        return [[mean(mean(self.seeds(task, run)) for task in tasks) for run in range(runs)]]

    def medians(self, task: str) -> dict[str, float]:
        """Return a task's medians in percent by learning rate; the key is "" if only one rate was tried."""
        score = self.scores[task]
        tried = {f" at {_rate(rate)}": median for rate, median in score.get("sweep", {}).items()}
        return {rate: 100 * median[score["metric"]] for rate, median in (tried or {"": score["median"]}).items()}

    def mean(self) -> float | None:
        """Return the mean of GLUE's tasks, in percent, or None if one is missing."""
        scores = [self.scores[task] for task in GLUE if task in self.scores]
        if len(scores) < len(GLUE):
            return None
        return 100 * statistics.fmean(score["median"][score["metric"]] for score in scores)


def folders(results: Path = RESULTS) -> list[Path]:
    """Return the folders of the ledger, the newest date first."""
    found = sorted(path.parent for path in results.glob("*/README.md"))
    return sorted(found, key=lambda folder: folder.name[:10], reverse=True)


def points(folder: Path, headline: bool = False) -> list[Point]:
    """Return the fine-tuned models of a folder; with `headline`, only those shown in docs/scores.md."""
    path = folder / "scores.json"
    content = json.loads(path.read_text()) if path.is_file() else {"headline": False, "points": []}
    return [Point(**point) for point in content["points"] if content["headline"] or not headline]


def records(path: Path) -> list[dict[str, Any]]:
    """Read a metrics file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def speed(curve: Path) -> float:
    """Return the median tokens per second of a run."""
    return statistics.median(record["tokens_per_second"] for record in records(curve) if "tokens_per_second" in record)


def csv_rows(path: Path) -> list[list[str]]:
    """Read a CSV table of the ledger, header row included."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows as a Markdown table; the first row is the header."""
    lines = ["".join(f"| {cell} " if cell else "| " for cell in row) + "|" for row in rows]
    return "\n".join([lines[0], "|---" * len(rows[0]) + "|", *lines[1:]]) + "\n"


def index_table(results: Path = RESULTS) -> str:
    """Return the index: date and heading of each folder."""
    rows = [["date", "entry"]]
    for folder in folders(results):
        text = (folder / "README.md").read_text(encoding="utf-8")
        title = re.match(r"# (.+)", text)
        if not title or not re.search(r"^\*\*Result\.\*\* ", text, re.MULTILINE):
            raise ValueError(f"{folder}/README.md needs a heading and a paragraph starting with **Result.**")
        rows.append([folder.name[:10], f"[{title[1]}]({folder.name}/README.md)"])
    return table(rows)


def scores_table(results: Path = RESULTS) -> str:
    """Return the headline scores, with the published ones in the last row."""
    others = [task for task in TASKS if task not in GLUE]
    rows = [["model", "pre-training", *GLUE.values(), "mean", *(TASKS[task] for task in others)]]
    for folder in folders(results):
        for point in points(folder, headline=True):
            mean = f"{found:.1f}" if (found := point.mean()) else ""
            name = f"[{point.model}](../results/{folder.name}/README.md)"
            rows.append([name, _cost(point), *map(point.cell, GLUE), mean, *map(point.cell, others)])
    theirs = published_scores()
    means = [*theirs, statistics.fmean(theirs)]
    return table([*rows, [PUBLISHED[1], "", *(f"{score:.1f}" for score in means), *("" for _ in others)]])


def published_scores() -> list[float]:
    """Return the published scores of GLUE's tasks."""
    from electra.recipes.glue import published

    return [published(task, 256)[PUBLISHED[0]] for task in GLUE]


def folder_scores_table(path: Path) -> str:
    """Return the scores of one folder, with a column for each of its tasks."""
    found = points(path.parent)
    tasks = [task for task in TASKS if any(task in point.scores for point in found)]
    return table(
        [
            ["model", "pre-training", *(TASKS[task] for task in tasks)],
            *([point.model, _cost(point), *(point.cell(task) for task in tasks)] for point in found),
        ]
    )


def runs_table(results: Path = RESULTS) -> str:
    """Return cost and metrics of the pre-training runs that have a folder to themselves."""
    costs = ["minutes", "updates", "tokens", "FLOPs", "tokens/s (median)"]
    rows = [["run", "body, layers × width", "objective", *costs, "held-out AUC", "generator's accuracy"]]
    for folder in folders(results):
        config, curve = folder / "config.toml", folder / "metrics.jsonl"
        if not config.is_file():
            continue
        sections = tomllib.loads(config.read_text(encoding="utf-8"))
        model = {"body": "electra", **sections["model"]}  # the only body at first
        found = records(curve)
        end = next(record for record in reversed(found) if "tokens" in record)
        heldout = next(record for record in reversed(found) if "heldout_loss" in record)
        rows.append(
            [
                f"[{folder.name[5:]}](../results/{folder.name}/README.md)",
                f"{model['body']} {model['layers']} × {model['hidden_size']}",
                sections["objective"]["name"],
                f"{end['seconds'] / 60:.1f}",
                f"{end['step']:,}",
                _amount(end["tokens"]),
                _power(_flops(sections, model, end["tokens"])),
                _amount(speed(curve)),
                _decimals(heldout.get("heldout_discriminator_auc")),
                _decimals(heldout.get("heldout_generator_accuracy")),
            ]
        )
    return table(rows)


def _cost(point: Point) -> str:
    if not point.tokens:
        return "none"
    return f"{point.seconds / 60:.1f} min, {_amount(point.tokens)} tokens, {_power(point.flops)} FLOPs"


def _flops(sections: dict[str, Any], model: dict[str, Any], tokens: int) -> float:
    """Count a run's FLOPs from the model and objective sections: other keys of an old config may no longer exist."""
    from pydantic import TypeAdapter

    from electra.config.bodies import Model
    from electra.config.objectives import Objective
    from electra.recipes.flops import count_flops

    objective = TypeAdapter(Objective).validate_python(sections["objective"])
    length = sections["train"]["length"]
    return count_flops(TypeAdapter(Model).validate_python(model), objective, length).train * tokens / length


def _rate(rate: str) -> str:
    return f"{float(rate):.0e}".replace("e-0", "e-")


def _power(number: float) -> str:
    return f"{number:.1e}".replace("e+", "e")


def _amount(number: float) -> str:
    """Format a large number with three digits: 537 M, 1.93 M, 562."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if number >= size:
            return f"{number / (1e3 if unit == 'k' else size):.3g} {unit}"
    return f"{number:,.0f}"


def _decimals(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
