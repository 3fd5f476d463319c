"""What `import electra` gives and what it costs."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import electra


def test_the_exported_names_are_these():
    assert electra.__all__ == [
        "ElectraError",
        "FinetuneConfig",
        "PretrainConfig",
        "Pretrained",
        "Tokenizer",
        "build_corpus",
        "build_objective",
        "evaluate",
        "export",
        "finetune",
        "flops",
        "glue",
        "import_model",
        "load",
        "load_config",
        "load_finetune_config",
        "load_tokenizer",
        "play",
        "predict",
        "pretrain",
        "report",
        "train",
        "train_vocab",
    ]


def test_every_exported_name_exists():
    for name in electra.__all__:
        assert getattr(electra, name).__name__ == name


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(electra.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.asname: node.module for node in block.body for alias in node.names}
    assert seen == electra._HOMES


def test_importing_electra_imports_nothing_heavy():
    heavy = "{'torch', 'numpy', 'pydantic', 'tokenizers', 'transformers', 'rich'}"
    code = f"import sys, electra; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("use", "heavy"),
    [("electra.load().detect('a word')", "torch._dynamo"), ("electra.predict, electra.finetune", "sklearn")],
)
def test_what_takes_seconds_to_import_is_imported_when_it_is_needed(use, heavy):
    code = f"import sys, electra; {use}; print('{heavy}' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("given", "variable", "value"),
    [
        ({}, "MIMALLOC_PURGE_DELAY", "1000"),
        ({"MIMALLOC_PURGE_DELAY": "7"}, "MIMALLOC_PURGE_DELAY", "7"),
        ({}, "GOMP_SPINCOUNT", "6000"),
        ({"GOMP_SPINCOUNT": "7"}, "GOMP_SPINCOUNT", "7"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "GOMP_SPINCOUNT", "None"),
    ],
)
def test_memory_and_threads_are_set_up_unless_the_environment_says_otherwise(given, variable, value):
    code = f"import os, electra; print(os.environ.get('{variable}'))"
    usual = {"MIMALLOC_PURGE_DELAY", "GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}
    environment = {name: value for name, value in os.environ.items() if name not in usual} | given
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == value
