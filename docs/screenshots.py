"""Take the screenshots of the playground and of the report.

python docs/screenshots.py [--model MODEL] [--tags RUN] [--classes RUN] [--compare RUN] [--run RUN] [--text RUN]

The first three are fine-tuned runs: tagging, classification and similarity. --text is a run whose held-out sentences
may be published. Screenshots of omitted options are kept. Needs Debian's chromium and the extras `play` and `browser`.
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
FOOL = "The young woman lived in a small house near the river."
HIDDEN = ("woman", "river")
FORMS = {  # texts to fill in
    "tags": ["The old bridge over the river was built by the Romans in the second century ."],
    "classes": ["A warm and funny film that never loses its way."],
    "compare": [
        "A man is playing a guitar on a stage.",
        "Somebody makes music in front of an audience.\nTwo dogs run through the snow.\nA woman is slicing an onion.",
    ],
}
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


def opened(browser: Browser, address: str, width: int, height: int = 600) -> Page:
    """Open a page with the given viewport, at twice the resolution for the phone."""
    page = browser.new_page(viewport={"width": width, "height": height}, device_scale_factor=2 if width == PHONE else 1)
    page.set_default_timeout(120_000)
    page.goto(address)
    return page


def detect(page: Page, out: Path) -> None:
    """Capture the text with wrong words that the page begins with."""
    page.locator("#found .flagged").first.wait_for()
    page.screenshot(path=out, full_page=True)


def fool(page: Page, out: Path) -> None:
    """Capture the generator's proposals for two words and the discriminator's verdict on the likeliest ones."""
    page.get_by_role("tab", name="Fool it").click()
    page.get_by_label("1. Type a sentence").fill(FOOL)
    for word in HIDDEN:
        page.get_by_role("checkbox", name=word).check()
        page.locator("#verdict", has_text=f"{word} →").first.wait_for()
    page.screenshot(path=out, full_page=True)


def form(page: Page, texts: list[str], out: Path) -> None:
    """Capture a model's answer to a form."""
    page.get_by_role("textbox").first.wait_for()
    for box, text in zip(page.get_by_role("textbox").all(), texts, strict=True):
        box.fill(text)
    page.get_by_role("button", name="Ask the model").click()
    page.locator("#answer .answer").first.wait_for()
    page.screenshot(path=out, full_page=True)


def report(browser: Browser, run: str, out: Path, width: int = 1000, part: str | None = None) -> None:
    """Capture the first screen of a report, or one of its parts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "report.html")
        electra.report([run], file)
        page = opened(browser, file.as_uri(), width, 1100)
        page.wait_for_selector("[data-drawn]")
        (page.locator(part) if part else page).screenshot(path=out)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded")
    for option in (*FORMS, "run", "text"):
        parser.add_argument(f"--{option}")
    options = parser.parse_args()
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with served(options.model) as address:
            detect(opened(chromium, address, WIDTH), IMAGES / "play-detect.png")
            detect(opened(chromium, address, PHONE), IMAGES / "play-phone.png")
            fool(opened(chromium, address, WIDTH), IMAGES / "play-fool.png")
        for name, texts in FORMS.items():
            if model := getattr(options, name):
                with served(model) as address:
                    form(opened(chromium, address, WIDTH), texts, IMAGES / f"play-{name}.png")
        if options.run:
            report(chromium, options.run, IMAGES / "report.png")
            report(chromium, options.run, IMAGES / "report-phone.png", PHONE)
        if options.text:
            report(chromium, options.text, IMAGES / "report-sentences.png", part="#samples")
