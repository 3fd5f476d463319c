"""The page in a real browser: curves are drawn, runs and axes can be selected, nothing is fetched, nothing fails."""

import shutil

import pytest

import electra

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium"),
    pytest.mark.filterwarnings("default"),  # those of the driver
]
playwright = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def opened(browser, make_run, make_tuned, tmp_path):
    """A function that opens a report of two pre-training runs and a fine-tuning run, and fails on any error."""
    electra.report(
        [make_run("first", warning="the text runs dry"), make_run("second", "seed=3", steps=60), make_tuned("tuned")],
        tmp_path / "page.html",
    )
    address, complaints = (tmp_path / "page.html").as_uri(), []

    def open_page(**options):
        page = browser.new_page(**options)
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url in (address, "data:,") or complaints.append(request.url))
        page.goto(address)
        page.wait_for_selector("[data-drawn]")
        return page

    yield open_page
    assert complaints == []


def lines(page, metric):
    return page.locator(f'[data-metric="{metric}"] path').count()


def press(page, name):
    page.locator("#controls").get_by_role("button", name=name, exact=True).click()


def test_curves_are_drawn_for_training_and_held_out_text(opened):
    page = opened()
    for metric in ("generator_loss", "discriminator_loss", "discriminator_auc", "replaced_fraction"):
        assert lines(page, metric) == 4, metric
    assert lines(page, "learning_rate") == 2
    path = page.locator('[data-metric="generator_loss"] path.heldout').first.get_attribute("d")
    assert path.count("L") == 10
    assert "NaN" not in path


def test_runs_can_be_hidden_and_shown_again(opened):
    page = opened()
    press(page, "second")
    assert lines(page, "generator_loss") == 2
    assert "held-out 4" in page.locator('[data-metric="generator_loss"]').inner_text()
    assert page.locator("#glance tbody tr").count() == 1
    press(page, "second")
    assert lines(page, "generator_loss") == 4


def test_the_axis_can_be_selected(opened):
    page = opened()
    chart = page.locator('[data-metric="generator_loss"] svg')
    seen = set()
    for axis in ("step", "tokens", "FLOPs", "hours"):
        press(page, axis)
        assert chart.get_attribute("aria-label") == f"Generator loss by {axis}"
        assert lines(page, "generator_loss") == 4
        seen.add(chart.text_content())
    assert len(seen) == 4


def test_metrics_that_are_always_zero_are_named_instead_of_drawn(opened):
    page = opened()
    assert not page.locator("#zeros").is_visible()
    page.evaluate("for (const run of runs) run.curves.heldout.discriminator_auc?.fill(0); draw()")
    assert page.locator("#zeros").inner_text() == "Always 0 and not drawn: AUC."
    assert lines(page, "discriminator_auc") == 0
    assert lines(page, "generator_loss") == 4


def test_buttons_work_with_the_keyboard(opened):
    page = opened()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert lines(page, "generator_loss") == 2
    page.keyboard.press("Space")  # the same button keeps the focus
    assert lines(page, "generator_loss") == 4


def test_sentences_scores_warnings_and_costs_are_shown(opened):
    page = opened()
    assert page.locator(".token.new").first.inner_text().startswith("</script><b>")
    assert page.locator('[data-task="mrpc"] circle').count() == 2
    assert "[58.0, 84.0]" in page.locator('[data-task="mrpc"]').text_content()
    assert "What to do." in page.locator("#warnings").inner_text()
    assert "NVIDIA H200" in page.locator("#cost").inner_text()
    assert "seed" in page.locator("#configs").inner_text()


def test_values_are_shown_at_the_pointer(opened):
    page = opened()
    page.locator('[data-metric="discriminator_auc"] svg').hover()
    assert "first held-out" in page.locator("#tip").inner_text()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_needs_no_horizontal_scrolling(opened, scheme):
    page = opened(viewport={"width": 360, "height": 740}, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    assert page.evaluate("[...document.querySelectorAll('.stacked')].every(one => one.scrollWidth <= one.clientWidth)")
    assert page.locator("#glance td").nth(1).evaluate("one => getComputedStyle(one, '::before').content") == '"State"'
    assert lines(page, "generator_loss") == 4


def test_a_small_window_shows_all_columns_of_the_scores(browser, make_tuned, tmp_path):
    scores = dict.fromkeys(("f1", "precision", "recall", "accuracy"), 0.8765)
    electra.report([make_tuned("tuned", task="chunking", median=scores, std=scores)], tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 860, "height": 740})
    page.goto((tmp_path / "page.html").as_uri())
    table = page.locator("#finetuning .wide")
    assert "accuracy" in table.inner_text()
    assert table.evaluate("one => one.scrollWidth <= one.clientWidth")


def test_a_printout_has_every_section_and_no_buttons(opened):
    page = opened()
    page.emulate_media(media="print")
    assert not page.locator("#controls").is_visible()
    for section in ("glance", "warnings", "curves", "samples", "finetuning", "cost", "configs"):
        assert page.locator(f"#{section}").is_visible(), section
