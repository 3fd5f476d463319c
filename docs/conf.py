"""Sphinx configuration of the site (`make docs`). Pages load nothing from other servers."""

import re
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
html_show_search_summary = False  # it needs fetch(), which does not work for pages opened from disk
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


def navigation(app: Sphinx, page: str, source: list[str]) -> None:
    """Add the navigation: the link lists of the index page and the entries of the ledger."""
    if page == root_doc:
        for caption, body in re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", source[0], flags=re.MULTILINE | re.DOTALL):
            source[0] += _toctree(re.findall(r"^- \[(.+?)\]\((.+?)\.md\)", body, flags=re.MULTILINE), caption)
    elif page == "results/README":
        source[0] += _toctree(re.findall(r"\| \[(.+?)\]\((.+?/README)\.md\)", source[0]), "Runs")


def _toctree(entries: list[tuple[str, str]], caption: str) -> str:
    lines = "\n".join(f"{title} <{target}>" for title, target in entries)
    return f"\n\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n{lines}\n```\n"


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
