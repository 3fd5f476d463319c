"""What the documents promise: generated pages are fresh, links lead somewhere; the commands are in test_commands.py."""

import csv
import re
import tomllib
from pathlib import Path

import generate
import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "results").glob("**/*.md")]
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
WRITTEN = [ROOT / "README.md", *(page for page in (ROOT / "docs").glob("*.md") if page.name not in generate.PAGES)]
MEASURED = re.compile(  # a speed, a time of parts of a second, a score
    r"\d ?[kM]? tokens/s|\d ?(ms|µs)\b|\bAUC (of )?0\.\d\d"
    r"|\b(accuracy|recall|F1|CoLA|SST-2|MRPC|STS-B|RTE|QNLI) (of )?\d+\.\d"
)


def anchors(page: Path) -> set[str]:
    """Give the anchors of a page's headings, made as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", generate.PAGES)
def test_generated_pages_are_fresh(name):
    """If this fails: make docs."""
    assert (ROOT / "docs" / name).read_text() == generate.PAGES[name]()


def counted_slowly(page):
    """Return a page as a parameter; counting the FLOPs of every size takes a minute."""
    return pytest.param(page, marks=pytest.mark.slow if page.name == "size.md" else [], id=page.name)


@pytest.mark.parametrize("page", [counted_slowly(page) for page in PAGES])
def test_code_and_tables_in_the_pages_are_fresh(page):
    """If this fails: make docs."""
    assert page.read_text() == generate.filled(page.read_text())


@pytest.mark.parametrize("table", sorted((ROOT / "results").glob("*/*.csv")), ids=lambda path: path.stem)
def test_every_row_of_a_measured_table_has_its_columns(table):
    with table.open(encoding="utf-8", newline="") as file:
        assert len({len(row) for row in csv.reader(file)}) == 1


def test_every_public_name_is_on_the_python_page():
    import electra

    headings = re.findall(r"^### electra\.(\w+)$", (ROOT / "docs/python.md").read_text(), re.MULTILINE)
    assert sorted(headings) == electra.__all__


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#?([^)\s]*)\)", FENCED.sub("", page.read_text())):
        if target.startswith("http"):
            continue
        place = page.parent / target if target else page
        assert place.exists(), target
        assert not anchor or anchor in anchors(place), f"{target}#{anchor}"


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_a_section_with_measured_figures_names_their_folder_of_the_ledger(page):
    """Tables too, and output that is shown; a link at the top of a page is for all of it."""
    opening, *sections = re.split(r"^(?=## )", page.read_text(), flags=re.MULTILINE)
    for section in sections:
        found = MEASURED.search(section)
        assert not found or re.search(r"\]\((\.\./)?results/\d", opening + section), f"{found}: {section[:60]}"


def test_every_extra_that_pages_and_messages_name_can_be_installed():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    texts = [path.read_text() for path in (*PAGES, *(ROOT / "src").rglob("*.py"))]
    named = {name for text in texts for name in re.findall(r"(?:pip install '\.\[|\(extra: )(\w+)", text)}
    assert named
    assert named <= known.keys()
    contributing = (ROOT / "CONTRIBUTING.md").read_text()
    editable = [text for text in texts if "pip install -e '.[" in text]  # turns an installation into an editable one
    assert editable in ([], [contributing])
    assert not any("electra[" in text for text in texts)  # no index has the package


def test_every_page_is_in_the_navigation():
    index = ROOT / "docs/index.md"
    listed = re.findall(r"^- \[.+?\]\((.+?)\)", index.read_text(), re.MULTILINE)
    assert len(listed) == len(set(listed))
    pages = {(index.parent / target).resolve() for target in listed}
    assert pages >= {*(ROOT / "docs").glob("*.md")} - {index}


def test_the_presets_table_is_true():
    from electra.config import preset_names
    from electra.config.load import load_config
    from electra.recipes.flops import count_parameters, on_meta

    rows = re.findall(
        r"^\| `([\w-]+)` \| (\d+) × (\d+) \|.*?\| ([\d.]+) M \| (\d* ?×? ?\d*)",
        (ROOT / "docs/size.md").read_text(),
        re.MULTILINE,
    )
    assert sorted(name for name, *_ in rows) == sorted(preset_names())
    for name, layers, width, millions, batch in rows:
        config = load_config(name)
        assert (config.model.layers, config.model.hidden_size) == (int(layers), int(width))
        joint = count_parameters(on_meta(config.model, config.objective))["joint"]
        assert round(joint / 1e6, 1) == float(millions)
        assert batch in ("", f"{config.train.batch_size} × {config.train.length}")
