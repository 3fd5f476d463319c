"""The house's one law: a module imports its own layer and those to its left, nothing else."""

import ast
from pathlib import Path

import electra

ROOT = Path(electra.__file__).parent
LAYERS = ["errors", "config", "data", "model", "objectives", "training", "tasks", "recipes", "playground", "cli"]

# The way of a text, inside its layer.
DATA = "settings mix files checksums subprocesses storage cluster reading tokens corpus feeding".split()


def layer(module: str) -> str:
    return module.removeprefix("electra.").split(".")[0]


def imported_modules(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            raise AssertionError(f"{path}: relative import")
    return [name for name in names if name.startswith("electra.")]


def modules() -> list[Path]:
    return [path for path in sorted(ROOT.rglob("*.py")) if path.parent != ROOT or path.stem in LAYERS]


def test_every_module_belongs_to_a_layer():
    assert len(modules()) > 5
    for path in modules():
        assert layer(".".join(path.relative_to(ROOT).with_suffix("").parts)) in LAYERS, path


def test_imports_only_point_left():
    for path in modules():
        own = LAYERS.index(layer(".".join(path.relative_to(ROOT).with_suffix("").parts)))
        for name in imported_modules(path):
            assert LAYERS.index(layer(name)) <= own, f"{path.relative_to(ROOT)} imports {name}, a layer to its right"


def test_imports_inside_of_data_point_back_on_the_way_of_a_text():
    for path in (ROOT / "data").rglob("*.py"):
        own = path.relative_to(ROOT / "data").with_suffix("").parts[0]
        for name in imported_modules(path):
            if layer(name) == "data":
                other = name.split(".")[2]
                assert DATA.index(other) <= DATA.index(own), f"{path.relative_to(ROOT)} imports {name}"
