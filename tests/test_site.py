"""The site that `make docs` builds: whole, without a warning, and without a request to another server."""

import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

pytest.importorskip("sphinx", reason="make docs needs the extra docs")
ROOT = Path(__file__).parents[1]
LOADING = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "link": "href",
}  # what a page fetches by itself


class Page(HTMLParser):
    """The addresses in a page, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fetched: list[str] = []
        self.linked: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.anchors |= {found[name] for name in ("id", "name") if found.get(name)}
        if found.get(LOADING.get(tag, "")):
            self.fetched.append(found[LOADING[tag]])
        if tag == "a" and found.get("href"):
            self.linked.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("docs") / "site"
    sphinx = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going", "--conf-dir", "docs"]
    built = subprocess.run([*sphinx, ".", str(folder)], cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site) -> dict[Path, Page]:
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_is_built(site):
    for page in (ROOT / "docs").glob("*.md"):
        assert (site / "docs" / page.with_suffix(".html").name).is_file()


def test_no_page_asks_another_server(site, pages):
    assert pages
    for path, page in pages.items():
        for address in page.fetched:
            assert not urlsplit(address).netloc, (path.name, address)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//|@import", sheet.read_text(encoding="utf-8")), sheet.name


def test_no_link_of_the_site_is_dead(pages):
    for path, page in pages.items():
        for address in [*page.fetched, *page.linked]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), (path.name, address)
            if parts.fragment and target in pages:
                assert parts.fragment in pages[target].anchors, (path.name, address)


def test_formulas_are_drawn_by_the_browser(site):
    text = (site / "docs/objectives.html").read_text(encoding="utf-8")
    assert text.count('<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">') >= 6
    assert "$" not in re.sub(r"<pre>.*?</pre>", "", text, flags=re.DOTALL).split("<article")[1].split("</article>")[0]


def test_the_search_finds_words_of_the_pages(site):
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    for word in ("plateau", "japanes", "gde"):  # stems
        assert word in index


def test_the_search_shows_text_and_no_entries_of_the_ledger(site):
    index = json.loads(re.search(r"\{.*\}", (site / "searchindex.js").read_text(encoding="utf-8"), re.DOTALL)[0])
    found = {index["docnames"][number] for numbers in index["terms"].values() for number in _listed(numbers)}
    assert "docs/reading" in found
    assert not any(re.match(r"results/\d", name) for name in found)
    assert 'src="_static/texts.js' in (site / "search.html").read_text(encoding="utf-8")
    assert '"docs/reading.html"' in (site / "_static/texts.js").read_text(encoding="utf-8")
    assert "texts.js" not in (site / "docs/reading.html").read_text(encoding="utf-8")


def _listed(numbers: int | list[int]) -> list[int]:
    return numbers if isinstance(numbers, list) else [numbers]


def test_the_pictures_are_drawn_from_the_ledger(tmp_path):
    """If this fails: make docs."""
    subprocess.run([sys.executable, ROOT / "docs/figures.py", tmp_path], check=True, capture_output=True)
    drawn = {path.name: path.read_text() for path in tmp_path.glob("*.svg")}
    assert drawn == {path.name: path.read_text() for path in (ROOT / "docs/figures").glob("*.svg")}
