"""Compute the expected curves, bands of a held-out metric over tokens, from the healthy runs of the ledger."""

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from entries import RESULTS, records

GRID = [round(2 ** (half / 2)) for half in range(32, 61)]  # tokens
QUANTILES, MARGIN = (0.1, 0.9), 0.02  # of the runs; added on both sides, since most bands have few runs
FEWEST_RUNS = 2
HEALTHY = {"discriminator_auc": 0.7, "mlm_hidden_accuracy": 0.2}  # at the end of a run
KIND = ("objective", "generator", "generator_width", "body", "width", "metric")
KEPT = 0.95  # share of its best value that a run still has at the end; one with less collapsed
OFF_THE_PLATEAU = 0.25  # accuracy of a trained generator that uses context; copying and frequencies give less


def expected_curves(results: Path = RESULTS) -> str:
    """Return the bands as JSON, a line for each objective, generator, body and width."""
    from pydantic import TypeAdapter

    from electra.config.objectives import Objective, SizedGenerator
    from electra.objectives.expected import kind_of, metric_of

    groups: dict[tuple[Any, ...], dict[str, tuple[list[int], list[float]]]] = {}
    for config in sorted(results.glob("*/*.toml")):
        metrics = config.with_name("metrics.jsonl") if config.name == "config.toml" else config.with_suffix(".jsonl")
        sections = tomllib.loads(config.read_text(encoding="utf-8"))
        objective = TypeAdapter(Objective).validate_python(sections["objective"])
        metric, trained = metric_of(objective), isinstance(getattr(objective, "generator", None), SizedGenerator)
        found = [record for record in records(metrics) if f"heldout_{metric}" in record and record["tokens"]]
        values = [record[f"heldout_{metric}"] for record in found]
        uses_context = found and (not trained or found[-1]["heldout_generator_accuracy"] >= OFF_THE_PLATEAU)
        if "init" not in sections and uses_context and values[-1] >= max(HEALTHY[metric], KEPT * max(values)):
            body = sections["model"].get("body", "electra")
            kind = (*kind_of(objective), body, sections["model"]["hidden_size"], metric)
            curve = [record["tokens"] for record in found], values
            groups.setdefault(kind, {})[str(curve)] = curve  # entries may share a run
    several = {kind: list(curves.values()) for kind, curves in groups.items() if len(curves) >= FEWEST_RUNS}
    lines = [json.dumps(_band(kind, several[kind])) for kind in sorted(several, key=str)]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def _band(kind: tuple[Any, ...], curves: Sequence[tuple[list[int], list[float]]]) -> dict[str, Any]:
    """Return the range of the runs at each point of the grid that any of them reached."""
    band: dict[str, Any] = dict(zip(KIND, kind, strict=True))
    band |= {"runs": len(curves), "tokens": [], "low": [], "high": []}
    for point in sorted({*GRID, max(tokens[-1] for tokens, _ in curves)}):
        here = [
            np.interp(np.log(point), np.log(tokens), values)
            for tokens, values in curves
            if tokens[0] <= point <= tokens[-1]
        ]
        if here:
            low, high = np.quantile(here, QUANTILES)
            band["tokens"].append(point)
            band["low"].append(round(float(low) - MARGIN, 3))
            band["high"].append(round(min(float(high) + MARGIN, 1.0), 3))
    return band
