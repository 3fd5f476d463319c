"""Generate pages and parts of pages: command help, config keys, Python API, code excerpts, tables of the ledger."""

import ast
import re
import textwrap
from collections import Counter
from functools import cache
from pathlib import Path
from typing import get_args

from api import NOTE, python_page
from differences import differences_table
from entries import RESULTS, csv_rows, folder_scores_table, index_table, runs_table, scores_table, speed, table
from expected import expected_curves

DOCS = Path(__file__).parent
ROOT = DOCS.parent
EXCERPT = re.compile(r"(<!-- code: (\S+) (\S+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
TABLE = re.compile(r"(<!-- table: (\S+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
MACHINES = {"cpu": "two CPU cores", "cuda": "one H200"}  # the ledger has the speed of `small` on each
TRAINED = {"small": "2026-11-15-small-5-minutes-fast", "modern-19x512": "2026-11-18-twenty-minutes"}  # on the H200


def cli_page() -> str:
    """Return the page with the help of every command."""
    import typer.main
    from typer.testing import CliRunner

    from electra.cli.commands import app

    commands = sorted(typer.main.get_command(app).commands)
    plain = CliRunner(env={"COLUMNS": "100", "TERM": "dumb", "TERMINAL_WIDTH": "100"})
    page = f"# Command line\n\nEvery command's `--help`. {NOTE}\n"
    for command in ["", *commands]:
        name = f"electra {command}".strip()
        text = plain.invoke(app, [*command.split(), "--help"], prog_name="electra").stdout
        page += f"\n## {name}\n\n```text\n{text.rstrip()}\n```\n"
    return page


def config_page() -> str:
    """Return the page with every key of both schemas and its value in the presets."""
    from electra.config.finetune import FinetuneConfig
    from electra.config.load import load_config, load_finetune_config
    from electra.config.schema import PretrainConfig

    return (
        f"# Config keys\n\n{NOTE}\n\n## Pre-training\n\nEvery key of a pre-training "
        "config with its common value, followed by the presets that differ. A dash marks a key of an objective or "
        "generator that no preset uses; its default is in parentheses.\n\n"
        + _key_table(PretrainConfig, load_config)
        + "\n## Fine-tuning\n\nThe same for a fine-tuning config. None: the value depends on the task, the "
        "model's width or the protocol; see the description.\n\n" + _key_table(FinetuneConfig, load_finetune_config)
    )


def _key_table(schema, load) -> str:
    from electra.config import preset_names
    from electra.config.keys import known_keys
    from electra.config.load import flatten

    presets = {name: flatten(load(name).model_dump()) for name in preset_names(schema.command)}
    kinds = _kinds(schema)
    table = "| key | description | value |\n|---|---|---|\n"
    for key, field in known_keys(schema).items():
        choices = " · ".join(f"`{choice}`" for choice in _choices(field.annotation))
        meaning = kinds.get(key) or f"{field.description}{choices and f' ({choices})'}"
        table += f"| `{key}` | {meaning} | {_values(key, presets) or f'– ({_formatted(field.default)})'} |\n"
    return table


def _choices(annotation) -> list[str]:
    """Return the strings that a Literal type allows; empty for other types."""
    inner = [[part] if isinstance(part, str) else _choices(part) for part in get_args(annotation)]
    return [word for words in inner for word in words]


def _kinds(schema) -> dict[str, str]:
    """Describe the variants of each union section, by the key that selects the variant."""
    from electra.config.keys import tags_of, unions, variants

    kinds = {}
    for path, union in unions(schema):
        fields = [
            (tag, part.model_fields[union.discriminator]) for part in variants(union) for tag in tags_of(part, union)
        ]
        kinds[f"{path}.{union.discriminator}"] = "; ".join(f"`{tag}`: {field.description}" for tag, field in fields)
    return kinds


def _values(key: str, presets) -> str:
    """Return a key's most common value and the presets that differ; all values if no two presets agree."""
    values = {name: _formatted(values[key]) for name, values in presets.items() if key in values}
    if not values:
        return ""
    common, count = Counter(values.values()).most_common(1)[0]
    all_differ = count == 1 < len(values)
    others = ", ".join(f"{name} {value}" for name, value in values.items() if all_differ or value != common)
    if all_differ:
        return others
    return f"{common} ({others})" if others else common


def _formatted(value) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def filled(page: str) -> str:
    """Update the code excerpts and tables of a page."""
    page = EXCERPT.sub(lambda match: f"{match[1]}```python\n{_excerpt(match[2], match[3])}\n```\n", page)
    return TABLE.sub(lambda match: f"{match[1]}\n{_table(match[2])}\n", page)


def _table(name: str) -> str:
    """Return a table by name, from a CSV or JSON file of the ledger, or (FILE.json:0-1) comparing two of its points."""
    if name.endswith(".csv"):
        return table(csv_rows(RESULTS / name))
    if compared := re.fullmatch(r"(.+\.json):(\d+)-(\d+)", name):
        return differences_table(RESULTS / compared[1], int(compared[2]), int(compared[3]))
    return folder_scores_table(RESULTS / name) if name.endswith(".json") else TABLES[name]()


def _excerpt(path: str, name: str) -> str:
    source = (ROOT / path).read_text(encoding="utf-8")
    node = ast.parse(source)
    for part in name.split("."):
        node = next(child for child in node.body if getattr(child, "name", None) == part)
    return textwrap.dedent("\n".join(source.splitlines()[node.lineno - 1 : node.end_lineno]))


@cache
def flops_per_second(machine: str, preset: str = "small") -> float:
    """Return a machine's FLOPs per second in training a preset, from the tokens per second in the ledger."""
    from electra.config.load import load_config
    from electra.recipes.flops import flops

    cost = flops(load_config(preset))
    if machine == "cpu":
        header, *rows = csv_rows(RESULTS / "2026-11-15-cpu-bench/two-cores.csv")
        tokens = next(float(row[header.index("tokens/s")]) for row in rows if row[0] == "`electra`")
    else:
        tokens = speed(RESULTS / TRAINED[preset] / "metrics.jsonl")
    return tokens * cost.train_flops / cost.tokens


def cost_table() -> str:
    """Return the cost of a full run of each preset."""
    from electra.config.load import load_config
    from electra.recipes.flops import flops

    table = "| preset | parameters, joint | tokens read | FLOPs | on one H200 |\n|---|---|---|---|---|\n"
    for name in ("small", "small-plus", "base", "large"):
        cost = flops(load_config(name))
        hours = cost.train_flops / flops_per_second("cuda") / 3600
        length = f"{hours:,.1f} hours" if hours < 48 else f"{hours / 24:,.0f} days"
        figures = f"{cost.parameters['joint'] / 1e6:,.1f} M | {cost.tokens / 1e9:,.3g} G"
        table += f"| `{name}` | {figures} | {cost.train_flops:.1e} | {length} |\n"
    return table


def choice_table() -> str:
    """Return what `electra train` would choose for different amounts of text and hours."""
    columns = [("cpu", 12), ("cpu", 72), ("cuda", 0.1), ("cuda", 1), ("cuda", 12)]
    headers = " | ".join(f"{MACHINES[kind]}, {hours:g} h" for kind, hours in columns)
    table = f"| text | {headers} |\n|---|{'---|' * len(columns)}\n"
    for text, size in {"1 MB": 1e6, "10 MB": 1e7, "100 MB": 1e8, "1 GB": 1e9, "10 GB": 1e10}.items():
        table += f"| {text} | {' | '.join(_choice(int(size), kind, hours) for kind, hours in columns)} |\n"
    return table


@cache
def _cost(name: str, vocabulary: int):
    """Return the cost of a preset with a vocabulary of this size."""
    from electra.config.load import load_config
    from electra.recipes import plan
    from electra.recipes.flops import flops

    shape = [f"model.vocab_size={vocabulary}", f"model.max_length={plan.LENGTH}"]
    return flops(load_config(name, [*shape, f"train.length={plan.LENGTH}"]))


def _choice(text_bytes: int, kind: str, hours: float) -> str:
    from electra.config.load import load_config
    from electra.recipes import plan
    from electra.recipes.flops import body_size

    tokens = text_bytes // plan.BYTES_PER_TOKEN
    costs = {name: _cost(name, plan.vocabulary(text_bytes)) for name in plan.SIZES[kind]}
    pace = flops_per_second(kind, "small" if kind == "cpu" else "modern-19x512")
    speeds = {name: pace * cost.tokens / cost.train_flops for name, cost in costs.items()}
    read = {name: min(hours * 3600 * speed, plan.MOST_EPOCHS * tokens) for name, speed in speeds.items()}
    sizes = {name: body_size(load_config(name).model) for name in costs}
    preset = plan.choose({name: read[name] for name in plan.with_enough_text(sizes, tokens)}, sizes)
    return f"{preset}, {read[preset] / tokens:.2g}×"


TABLES = {"cost": cost_table, "choice": choice_table, "index": index_table, "runs": runs_table, "scores": scores_table}
EXPECTED = "../src/electra/objectives/expected.json"  # ships with the package, which has no ledger
PAGES = {"cli.md": cli_page, "config.md": config_page, "python.md": python_page, EXPECTED: expected_curves}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
    for path in (*ROOT.glob("*.md"), *DOCS.glob("*.md"), *RESULTS.glob("**/*.md")):
        text = path.read_text(encoding="utf-8")
        if (fresh := filled(text)) != text:
            path.write_text(fresh, encoding="utf-8")
