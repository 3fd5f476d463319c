"""What the documents promise: generated pages are fresh, commands run, links lead somewhere."""

import re
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]

SHORTER = {
    "electra demo": "electra demo --minutes 0.4",
    "--hours 1 ": "--hours 0.006 ",
}  # the same commands, in seconds


def generator():
    spec = spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", ["cli.md", "config.md"])
def test_generated_pages_are_fresh(name):
    """If this fails: make docs."""
    assert (ROOT / "docs" / name).read_text() == generator().PAGES[name]()


@pytest.fixture(scope="module")
def after_the_commands(tmp_path_factory):
    """A folder in which all commands of the README have run, one after the other."""
    folder = tmp_path_factory.mktemp("readme")
    lines = [line for block in blocks(ROOT / "README.md", "sh") for line in block.splitlines()]
    commands = [line.partition("#")[0] for line in lines if line.startswith("electra ")]
    assert len(commands) >= 8
    for command in commands:
        for usual, short in SHORTER.items():
            command = command.replace(usual, short)
        shell = command.replace("electra", f"{sys.executable} -m electra", 1)
        result = subprocess.run(shell, shell=True, cwd=folder, capture_output=True, text=True)
        assert result.returncode == 0, (command, result.stderr)
        assert result.stdout, command
    return folder


def test_every_command_of_the_readme_runs(after_the_commands):
    for name in ("runs/demo/model", "runs/mine/plan.json", "runs/imported/config.toml"):
        assert (after_the_commands / name).exists()


def test_the_python_of_the_readme_runs(after_the_commands):
    (code,) = blocks(ROOT / "README.md", "python")
    subprocess.run([sys.executable, "-c", code], cwd=after_the_commands, check=True, capture_output=True)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


def test_the_presets_table_is_true():
    from electra.config.load import load_config
    from electra.recipes.flops import flops

    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d+) × (\d+) \|.*?\| ([\d.]+) M \|", (ROOT / "README.md").read_text(), re.MULTILINE
    )
    assert len(rows) == 5
    for name, layers, width, millions in rows:
        config = load_config(name)
        assert (config.model.layers, config.model.hidden_size) == (int(layers), int(width))
        assert round(flops(config).parameters["joint"] / 1e6, 1) == float(millions)
