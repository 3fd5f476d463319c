"""The page in a real browser: what a new user sees, types and clicks."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
MISSING = [name for name in ("gradio", "playwright") if find_spec(name) is None]
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(bool(MISSING) or CHROMIUM is None, reason="needs gradio, playwright and chromium"),
]

# Runs inside the server process and logs every lookup and connection.
WATCH = """
import sys
def watch(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        print("connects", arguments[1][0], file=sys.stderr, flush=True)
    elif event == "socket.getaddrinfo":
        print("connects", arguments[0], file=sys.stderr, flush=True)
sys.addaudithook(watch)
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]


@contextmanager
def served(model: Path | None, watched: Path):
    """Run `electra play`, yield the page's address, and interrupt it at the end."""
    (watched / "sitecustomize.py").write_text(WATCH)
    paths = [str(watched), *filter(None, [os.environ.get("PYTHONPATH")])]
    named = [str(model)] if model else []
    command = [sys.executable, "-m", "electra", "play", *named, "--port", str(free_port()), "--no-browser"]
    with (watched / "stderr").open("w") as errors:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        )
        try:
            line = process.stdout.readline()
            assert line, (watched / "stderr").read_text()
            yield line.split()[0]
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130
            process.stdout.close()


@pytest.fixture(scope="module")
def pretrained(tiny_folder, tmp_path_factory):
    watched = tmp_path_factory.mktemp("served")
    with served(tiny_folder, watched) as address:
        yield address, watched / "stderr"


@pytest.fixture
def embedded(tmp_path):
    """The address of the page of the embedded model."""
    with served(None, tmp_path) as address:
        yield address


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


class Visit:
    """An open page, the hosts that it requested, and its errors."""

    def __init__(self, browser, address: str, **settings) -> None:
        self.page = browser.new_page(**settings)
        self.hosts: set[str] = set()
        self.problems: list[str] = []
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).hostname))
        self.page.on("console", lambda message: message.type == "error" and self.problems.append(message.text))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.goto(address)
        self.page.get_by_role("tab").first.wait_for()

    def wait(self, selector: str, text: str | re.Pattern[str]) -> None:
        self.page.locator(selector, has_text=text).first.wait_for()


@pytest.fixture
def visit(browser):
    visits: list[Visit] = []

    def make(address: str, **settings) -> Visit:
        visits.append(Visit(browser, address, **settings))
        return visits[-1]

    yield make
    for one in visits:
        one.page.close()
        assert one.hosts == {"127.0.0.1"}
        assert one.problems == []


def backgrounds(page) -> list[str]:
    return page.locator("#found .token").evaluate_all("all => all.map(one => getComputedStyle(one).backgroundColor)")


def test_the_tokens_of_a_typed_sentence_are_colored(pretrained, visit, tiny_model):
    one = visit(pretrained[0])
    one.page.get_by_label("Text", exact=True).fill("the chef ate a soup")
    one.wait("#found", "of 5 tokens")
    from electra.playground.colors import css, shade

    assert backgrounds(one.page) == [
        css(shade(found.probability)) for found in tiny_model.detect("the chef ate a soup")
    ]


def test_the_threshold_can_be_moved_with_the_keyboard(pretrained, visit):
    one = visit(pretrained[0])
    slider = one.page.get_by_role("slider")
    slider.focus()
    slider.press("Home")
    one.wait("#found", "with a probability of 1 % or more")
    many = one.page.locator("#found .flagged").count()
    slider.press("End")
    one.wait("#found", "with a probability of 99 % or more")
    assert one.page.locator("#found .flagged").count() < many


def test_fool_it_can_be_played_with_the_keyboard(pretrained, visit):
    one = visit(pretrained[0])
    page = one.page
    page.get_by_role("tab", name="Fool it").focus()
    page.keyboard.press("Enter")
    page.get_by_label("1. Type a sentence").fill("the chef ate a meal")
    one.wait("#places", "meal")
    one.wait("#verdict", "Choose words to hide")
    page.get_by_role("checkbox", name="meal").focus()
    page.keyboard.press("Space")
    one.wait("#verdict", "meal →")
    shown = page.locator("#verdict .outcome").inner_text()
    assert re.match(r"(Fooled|Caught)", shown)
    page.get_by_role("radio", checked=True).focus()
    page.keyboard.press("Tab")  # gradio makes every candidate a tab stop
    page.keyboard.press("Space")
    page.wait_for_function("shown => document.querySelector('#verdict .outcome').innerText !== shown", arg=shown)
    assert page.locator("#verdict .tokens").count() == 2


def test_the_page_can_pick_the_hidden_words(pretrained, visit):
    one = visit(pretrained[0])
    one.page.get_by_role("tab", name="Fool it").click()
    one.page.get_by_role("button", name="Hide some for me").click()
    one.wait("#verdict .outcome", re.compile("Fooled|Caught|Unchanged"))
    assert one.page.get_by_role("checkbox", checked=True).count() >= 1


def test_a_phone_needs_no_horizontal_scrolling(pretrained, visit):
    one = visit(pretrained[0], viewport={"width": 360, "height": 740})
    for name in ("Detect", "Fool it"):
        one.page.get_by_role("tab", name=name).click()
        assert one.page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0


def test_the_server_makes_no_external_requests(pretrained, visit):
    visit(pretrained[0])
    asked = set(re.findall(r"^connects (\S+)$", pretrained[1].read_text(), re.MULTILINE))
    assert "127.0.0.1" in asked  # gradio connects to its own server, which proves that the log works
    assert asked <= {"127.0.0.1", "localhost", "None"}


def test_without_a_model_the_page_shows_the_embedded_one(embedded, visit):
    one = visit(embedded)
    one.wait("header", "the model shipped with electra")
    flagged = one.page.locator("#found .flagged").all_inner_texts()
    assert [text.split()[0] for text in flagged] == ["there", "the"]
    one.page.get_by_role("tab", name="Fool it").click()
    one.page.get_by_role("checkbox", name="man").check()
    one.wait("#verdict .outcome", re.compile("Fooled|Caught|Unchanged"))


def test_the_form_of_a_fine_tuned_model_is_answered(tuned_run, visit, tmp_path):
    with served(tuned_run("pairs"), tmp_path) as address:
        one = visit(address)
        assert [tab.inner_text() for tab in one.page.get_by_role("tab").all()] == ["Task"]
        one.page.get_by_label("Sentence 1").fill("the cat sat")
        one.page.get_by_label("Sentence 2").fill("a cat ate")
        one.page.get_by_role("button", name="Ask the model").click()
        one.wait("#answer .answer", re.compile("same|other"))
        assert one.page.locator("#answer .shares tr").count() == 2
        shares = one.page.locator("#answer .shares")
        assert shares.evaluate("table => getComputedStyle(table).borderTopWidth") == "0px"
        row, percent = (shares.locator(part).first.bounding_box()["height"] for part in ("tr", "td:last-child"))
        assert percent <= row < 40  # the percentage is on one line


def test_a_model_without_its_generator_says_so(tiny_folder, visit, tmp_path):
    copy = shutil.copytree(tiny_folder, tmp_path / "copy", ignore=shutil.ignore_patterns("generator"))
    with served(copy, tmp_path) as address:
        one = visit(address)
        one.page.get_by_role("tab", name="Fool it").click()
        one.page.get_by_text("This model has no generator").wait_for()
