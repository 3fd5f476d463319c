"""The notebooks run from top to bottom, with progress below their cells, and are stored without outputs."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))
SMALL = {  # budgets in place of the parameters of a notebook
    "train": """TEXT = "../docs/domain.md"
BUDGET = {"hours": 1, "overrides": ["train.steps=2", "model.layers=1", "model.vocab_size=500"]}""",
    "finetune": "EPOCHS = 0.5",
}
HASTE = "from electra.recipes import speed\nspeed.SECONDS = 0.1"


def read(path: Path) -> nbformat.NotebookNode:
    return nbformat.read(path, as_version=4)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_stored_without_outputs(path):
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in read(path).cells)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")  # of the kernel's client
def test_the_notebooks_run_and_show_their_progress(tmp_path, monkeypatch):
    """All of them in one kernel, whose start takes longer than they do."""
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    folder = tmp_path / "examples"
    folder.mkdir()
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    together = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(HASTE)])
    for path in NOTEBOOKS:
        cells = read(path).cells
        (parameters,) = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
        parameters.source += f"\n{SMALL.get(path.stem, '')}"
        together.cells += cells
    ran = NotebookClient(together, timeout=200, resources={"metadata": {"path": str(folder)}}).execute()
    shown = {cell.source: str(cell.get("outputs")) for cell in ran.cells if cell.cell_type == "code"}
    for call in ("electra.train(", "electra.finetune("):
        (output,) = [output for source, output in shown.items() if call in source]
        assert "<progress value=" in output, output
    assert "vocabulary of 500" in str(shown)
    assert (folder / "report.html").is_file()
