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
    """Give every key of the schema and the presets' values."""
    from electra.config.keys import known_keys
    from electra.config.load import flatten, load_config, preset_names
    from electra.config.schema import PretrainConfig

    presets = {name: flatten(load_config(name).model_dump()) for name in preset_names()}
    page = (
        "# Config keys\n\nEvery key of a pre-training config, with its value in each preset. A dash: the key belongs "
        "to another objective or generator.\nThis page is generated: `make docs`.\n\n"
        f"| key | meaning | {' | '.join(presets)} |\n|---|---|{'---|' * len(presets)}\n"
    )
    for key, field in known_keys(PretrainConfig).items():
        values = " | ".join(str(values.get(key, "-")) for values in presets.values())
        page += f"| `{key}` | {field.description} | {values} |\n"
    return page


PAGES = {"cli.md": cli_page, "config.md": config_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (DOCS / name).write_text(page(), encoding="utf-8")
