"""Sphinx configuration of the site (`make docs`). Pages load nothing from other servers."""

import json
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx

project = "electra"
copyright = "the electra authors"
extensions = ["myst_parser"]
root_doc = "docs/index"
include_patterns = [
    *("docs/*.md", "results/README.md", "results/*/README.md"),
    *("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"),
]
exclude_patterns = [".*", "runs", "site", "src", "tests", "local", "hf"]

myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = "electra"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_extra_path = ["redirect"]
html_copy_source = False
html_theme_options = {
    "top_of_page_buttons": [],
    "light_css_variables": {
        "color-brand-primary": "#2a6f97",
        "color-brand-content": "#2a6f97",
        "color-sidebar-link-text": "var(--color-foreground-secondary)",
    },
    "dark_css_variables": {"color-brand-primary": "#7fb7d6", "color-brand-content": "#7fb7d6"},
}
html_math_renderer = "mathml"
TEXTS: dict[str, str] = {}  # file of a page: its content, for the results of the search


def navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation: the link lists of the index page and the entries of the ledger."""
    if page == root_doc:
        for caption, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", source[0], flags=re.MULTILINE | re.DOTALL):
            source[0] += _toctree(re.findall(r"^- \[(.+?)\]\((.+?)\.md\)", body, flags=re.MULTILINE), caption)
    elif page == "results/README":
        source[0] += _toctree(re.findall(r"\| \[(.+?)\]\((.+?/README)\.md\)", source[0]), "Runs")
    elif page.startswith("results/"):  # the ledger has an index of its own; its entries would hide the pages
        source[0] = f"---\nnosearch: true\n---\n{source[0]}"


def _toctree(entries: list[tuple[str, str]], caption: str) -> str:
    lines = "\n".join(f"{title} <{target}>" for title, target in entries)
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


def gather_text(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Keep the text of a page for the results of the search, which asks for it with fetch()."""
    if doctree is not None and "nosearch" not in context["meta"]:
        TEXTS[f"{page}.html"] = f'<div role="main">{context["body"]}</div>'
    elif page == "search":
        app.add_js_file("texts.js")


def write_texts(app: Sphinx, problem: Exception | None) -> None:
    """Answer the search from a script: browsers do not fetch files for a page that was opened from disk."""
    find = "Object.keys(TEXTS).find((page) => address.endsWith(page))"
    script = (
        f"const TEXTS = {json.dumps(TEXTS)};\nwindow.fetch = async (address) => ({{ text: () => TEXTS[{find}] }});\n"
    )
    Path(app.outdir, "_static", "texts.js").write_text(script, encoding="utf-8")


def show_inline(writer: Any, node: nodes.math) -> None:
    """Render an inline formula as MathML, which browsers display natively."""
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def show_block(writer: Any, node: nodes.math_block) -> None:
    """Render a display formula as MathML."""
    writer.body.append(f'<div class="formula">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderers and the navigation with Sphinx."""
    app.add_html_math_renderer("mathml", inline_renderers=(show_inline, None), block_renderers=(show_block, None))
    app.connect("source-read", navigation)
    app.connect("html-page-context", gather_text)
    app.connect("build-finished", write_texts)
