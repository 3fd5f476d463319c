"""Take the screenshots of the playground and of the report.

python docs/screenshots.py MODEL [--task TUNED] [--run RUN] [--text RUN]

Screenshots of omitted options are kept; --text is a run whose held-out sentences may be published. Needs Debian's
chromium and the extras `play` and `browser`.
"""

import argparse
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

import electra

IMAGES = Path(__file__).parent / "images"
DETECT = "He was born in Vienna in 1901 and studied mathematics at the potato of Berlin."
FOOL = "The film was directed by a young woman and released in the summer of 1998."
HIDDEN = ("directed", "summer")
TAG = "The old bridge over the river was built by the Romans in the second century."
WIDTH, PHONE = 860, 390


@contextmanager
def served(model: str) -> Iterator[str]:
    """Run `electra play` and yield the address of its page."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    command = [sys.executable, "-m", "electra", "play", model, "--port", port, "--no-browser"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[0]
        finally:
            process.terminate()


def opened(browser: Browser, address: str, width: int, height: int = 800) -> Page:
    """Open a page with the given viewport, at twice the resolution for the phone."""
    page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=2 if width == PHONE else 1)
    page.set_default_timeout(120_000)
    page.goto(address)
    return page


def detect(page: Page, out: Path) -> None:
    """Capture a sentence with one wrong word."""
    page.get_by_label("Text", exact=True).fill(DETECT)
    page.locator("#found", has_text="tokens").locator("text=potato").first.wait_for()
    page.screenshot(path=out, full_page=True)


def fool(page: Page, out: Path) -> None:
    """Capture the generator's proposals for two words and the discriminator's verdict on the likeliest ones."""
    page.get_by_role("tab", name="Fool it").click()
    page.get_by_label("1. Type a sentence").fill(FOOL)
    for word in HIDDEN:
        page.get_by_role("checkbox", name=word).check()
        page.locator("#verdict", has_text=f"{word} →").first.wait_for()
    page.screenshot(path=out, full_page=True)


def task(page: Page, out: Path) -> None:
    """Capture a tagged sentence."""
    page.get_by_role("textbox").first.fill(TAG)
    page.get_by_role("button", name="Ask the model").click()
    page.locator("#answer .answer, #answer .tokens").first.wait_for()
    page.screenshot(path=out, full_page=True)


def report(browser: Browser, run: str, part: str, out: Path) -> None:
    """Capture a report, scrolled to one of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        electra.report([run], file)
        page = opened(browser, file.as_uri(), 1000, 1100)
        page.wait_for_selector("[data-drawn]")
        page.locator(part).evaluate("part => window.scrollTo(0, part.offsetTop - 60)")
        page.screenshot(path=out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--task")
    parser.add_argument("--run")
    parser.add_argument("--text")
    options = parser.parse_args()
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(options.model) as address:
            detect(opened(chromium, address, WIDTH), IMAGES / "play-detect.png")
            detect(opened(chromium, address, PHONE), IMAGES / "play-phone.png")
            fool(opened(chromium, address, WIDTH), IMAGES / "play-fool.png")
        if options.task:
            with served(options.task) as address:
                task(opened(chromium, address, WIDTH), IMAGES / "play-task.png")
        if options.run:
            report(chromium, options.run, "body", IMAGES / "report.png")
        if options.text:
            report(chromium, options.text, "#samples", IMAGES / "report-sentences.png")
