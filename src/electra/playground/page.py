"""The layout of the page; the other modules of this package compute what it shows."""

import random
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from electra.errors import ElectraError
from electra.model.pretrained import GENERATOR, Pretrained
from electra.playground import fooling, forms, tokens
from electra.playground.fooling import Round
from electra.playground.guard import Guard
from electra.recipes.evaluate import Tuned

STYLE = Path(__file__).with_name("page.css")
FONTS: dict[str, Any] = {"font": ["system-ui", "sans-serif"], "font_mono": ["ui-monospace", "monospace"]}  # local
INKS: dict[str, Any] = {  # text colors of hints; gradio's defaults are hard to read
    f"{name}{mode}": color
    for name in ("block_info_text_color", "body_text_color_subdued")
    for mode, color in (("", "*neutral_600"), ("_dark", "*neutral_300"))
}
TEXT = (
    "As soon as the sun rose, they went on there way. In the evening they came to a the house near the river, "
    "where an old man told them a story."
)
SENTENCE = "The old man told us a story about the sea."
LATEST: dict[str, Any] = {"trigger_mode": "always_last", "show_progress": "hidden", "api_visibility": "private"}

PRETRAINED = "This model was trained to detect replaced words: the darker a word, the likelier it was replaced."
TUNED = "This model was fine-tuned for the task “{task}”: fill in the form to see its answer."
NO_GENERATOR = (
    "<p>This model has no generator, the network that proposes words, so there is nothing to fool the discriminator "
    f"with. It is expected in the subfolder <code>{GENERATOR}</code> of the model, where <code>electra train</code> "
    "and <code>electra pretrain</code> write it.</p>"
)


class Page(gr.Blocks):
    """Blocks that show the error of a call on the page, without a traceback on the console."""

    async def process_api(self, *arguments: Any, **settings: Any) -> dict[str, Any]:
        """Run the function of an event."""
        try:
            return await super().process_api(*arguments, **settings)
        except Exception as problem:
            raise gr.Error(str(problem), print_exception=False) from problem


def build_page(model: Pretrained | Tuned, name: str) -> gr.Blocks:
    """Build the page: tabs Detect and Fool it for a pre-trained model, the form of its task for a fine-tuned one."""
    page = Page(title=f"{name}, electra play", analytics_enabled=False)
    with page:
        intro = PRETRAINED if isinstance(model, Pretrained) else TUNED.format(task=model.task.name)
        gr.HTML(f'<header><h1>electra</h1><p>{escape(intro)}</p><p class="model">{escape(name)}</p></header>')
        with gr.Tabs():
            if isinstance(model, Pretrained):
                with gr.Tab("Detect"):
                    _detect_tab(model)
                with gr.Tab("Fool it"):
                    _fool_tab(model, page)
            else:
                with gr.Tab(model.task.title):
                    _task_tab(model)
    return page


def _detect_tab(model: Pretrained) -> None:
    @lru_cache(maxsize=8)  # moving the threshold does not run the model again
    def read(text: str) -> list[tokens.Token]:
        return tokens.detect(model, text)

    def show(text: str, threshold: float) -> str:
        try:
            found = read(text)
        except ElectraError as problem:
            return _show_error(problem)
        status = f'<p role="status">{tokens.summary(found, threshold)}</p>'
        return status + tokens.colored(found, threshold) + tokens.scale()

    text = gr.Textbox(
        TEXT, label="Text", lines=3, max_lines=12, max_length=tokens.LONGEST_TEXT, placeholder="Type or paste text"
    )
    found = gr.HTML(show(TEXT, tokens.THRESHOLD), elem_id="found")
    threshold = gr.Slider(0.01, 0.99, tokens.THRESHOLD, step=0.01, label="Flag tokens with at least this probability")
    for changed in (text.change, threshold.input):  # gradio's input event misses text pasted with the mouse
        changed(show, [text, threshold], found, **LATEST)


def _fool_tab(model: Pretrained, page: gr.Blocks) -> None:
    if model.generator is None:
        gr.HTML(NO_GENERATOR)
        return
    text = gr.Textbox(SENTENCE, label="1. Type a sentence", max_length=fooling.LONGEST_SENTENCE)
    places = gr.CheckboxGroup(label="2. Choose words to hide", info=f"At most {fooling.MOST_HIDDEN}.", elem_id="places")
    pick = gr.Button("Hide some for me", size="sm", elem_id="pick")
    choices = [gr.Radio(visible=False, elem_classes="candidates") for _ in range(fooling.MOST_HIDDEN)]
    verdict = gr.HTML(elem_id="verdict")

    def show(text: str, places: list[int]) -> list[Any]:
        try:
            played = fooling.play_round(model, text, places)
        except ElectraError as problem:
            return [gr.skip()] * (len(choices) + 1) + [_show_error(problem)]
        names = [(label, place) for place, label in enumerate(played.sentence.labels)]
        hidden = gr.CheckboxGroup(names, value=list(played.places))
        return [hidden, *_candidates(played), fooling.show_verdict(played)]

    def hide_some(text: str) -> list[Any]:
        return show(text, fooling.pick_places(model, text, random.Random()))

    def judge(text: str, places: list[int], *chosen: int) -> str:
        return fooling.show_verdict(fooling.play_round(model, text, places, chosen[: len(places)]))

    everything = [places, *choices, verdict]
    text.change(lambda text: show(text, []), text, everything, **LATEST)
    places.input(show, [text, places], everything, **LATEST)
    pick.click(hide_some, text, everything, **LATEST)
    for choice in choices:
        choice.input(judge, [text, places, *choices], verdict, **LATEST)
    page.load(hide_some, text, everything, **LATEST)


def _candidates(played: Round) -> list[gr.Radio]:
    """Return a row of candidates for each hidden position; unused rows stay invisible."""
    rows = [
        gr.Radio(
            [(fooling.describe(candidate), candidate.id) for candidate in offered],
            value=chosen,
            label=f"{'' if row else '3. '}Replace “{played.sentence.labels[place]}” by a proposal of the generator",
            visible=True,
        )
        for row, (place, offered, chosen) in enumerate(zip(played.places, played.offered, played.chosen, strict=True))
    ]
    return rows + [gr.Radio(visible=False)] * (fooling.MOST_HIDDEN - len(rows))


def _task_tab(tuned: Tuned) -> None:
    def show(*texts: str) -> str:
        try:
            return forms.answer(tuned, texts)
        except ElectraError as problem:
            return _show_error(problem)

    boxes = [
        gr.Textbox(label=field.label, info=field.hint or None, lines=field.lines, max_length=tokens.LONGEST_TEXT)
        for field in tuned.task.fields
    ]
    ask = gr.Button("Ask the model", variant="primary")
    found = gr.HTML(show(*("" for _ in boxes)), elem_id="answer")
    for asked in (ask.click, *(box.submit for box in boxes)):
        asked(show, boxes, found, **LATEST)


def _show_error(problem: ElectraError) -> str:
    return f'<p class="problem" role="alert">{escape(str(problem))}</p>'


def launch(page: gr.Blocks, host: str, port: int, browser: bool) -> None:
    """Serve a page in the background, without external fonts, scripts or analytics."""
    page.launch(
        server_name=host,
        server_port=port,
        inbrowser=browser,
        share=False,
        quiet=True,
        prevent_thread_lock=True,
        ssr_mode=False,
        footer_links=[],
        theme=gr.themes.Base(**FONTS).set(**INKS),
        css_paths=STYLE,
        enable_monitoring=False,
        app_kwargs={"middleware": [Middleware(Guard, host, port)]},
    )
