"""Write the generated pages: docs/cli.md from the commands' help, docs/config.md from the schema and the presets."""

import os
from pathlib import Path

DOCS = Path(__file__).parent


def cli_page() -> str:
    """Give the help of every command."""
    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "TERMINAL_WIDTH": "100"}
    import typer.main
    from typer.testing import CliRunner

    from electra.cli import app

    commands = sorted(typer.main.get_command(app).commands)
    page = "# Command line\n\nEvery command's `--help`. This page is generated: `make docs`.\n"
    for command in ["", *commands]:
        name = f"electra {command}".strip()
        text = CliRunner().invoke(app, [*command.split(), "--help"], prog_name="electra").stdout
        page += f"\n## {name}\n\n```text\n{text.rstrip()}\n```\n"
    return page


def config_page() -> str:
    """Give every key of both schemas and the presets' values."""
    from electra.config.finetune import FinetuneConfig
    from electra.config.load import load_config, load_finetune_config
    from electra.config.schema import PretrainConfig

    return (
        "# Config keys\n\nThis page is generated: `make docs`.\n\n## Pre-training\n\nEvery key of a pre-training "
        "config, with its value in each preset. A dash: the key belongs to another objective or generator.\n\n"
        + _key_table(PretrainConfig, load_config)
        + "\n## Fine-tuning\n\nEvery key of a fine-tuning config. None: the value follows the task, the model's width "
        "or the protocol, as its meaning says.\n\n" + _key_table(FinetuneConfig, load_finetune_config)
    )


def _key_table(schema, load) -> str:
    from electra.config.keys import known_keys
    from electra.config.load import flatten, preset_names

    presets = {name: flatten(load(name).model_dump()) for name in preset_names(schema)}
    table = f"| key | meaning | {' | '.join(presets)} |\n|---|---|{'---|' * len(presets)}\n"
    for key, field in known_keys(schema).items():
        values = " | ".join(str(values.get(key, "-")) for values in presets.values())
        table += f"| `{key}` | {field.description} | {values} |\n"
    return table


PAGES = {"cli.md": cli_page, "config.md": config_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
