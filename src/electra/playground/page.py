"""The layout of the page; what it shows is made by the plain functions beside this file."""

import random
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from electra.errors import ElectraError
from electra.model.pretrained import GENERATOR, Pretrained
from electra.playground import fooling, forms, tokens
from electra.playground.fooling import Round
from electra.recipes.evaluate import Tuned

STYLE = Path(__file__).with_name("page.css")
FONTS: dict[str, Any] = {
    "font": ["system-ui", "sans-serif"],
    "font_mono": ["ui-monospace", "monospace"],
}  # of the reader's own machine
INKS: dict[str, Any] = {  # of hints; gradio's own are too pale to be read with ease
    f"{name}{mode}": colour
    for name in ("block_info_text_color", "body_text_color_subdued")
    for mode, colour in (("", "*neutral_600"), ("_dark", "*neutral_300"))
}
TEXT = (
    "As soon as the sun rose, they went on there way. In the evening they came to a the house near the river, "
    "where an old man told them a story."
)
SENTENCE = "The old man told us a story about the sea."
LATEST: dict[str, Any] = {"trigger_mode": "always_last", "show_progress": "hidden", "api_visibility": "private"}

PRETRAINED = (
    "This model was trained to notice words that were swapped for others: "
    "the darker a word, the surer it is that another one stood there before."
)
TUNED = "This model was fine-tuned for the task “{task}”: fill in the form, and see its answer and how sure it is."
ALONE = (
    f"<p>This model comes without its generator, the network that proposes words, so there is nothing to fool the "
    f"discriminator with. The generator is looked for in the folder <code>{GENERATOR}</code> inside the model's; "
    f"<code>electra train</code> and <code>electra pretrain</code> write it there.</p>"
)


def build_page(model: Pretrained | Tuned, name: str) -> gr.Blocks:
    """Lay out the page of a model: Detect and Fool it for a pre-trained one, Task for a fine-tuned one."""
    page = gr.Blocks(title=f"{name}, electra play", analytics_enabled=False)
    with page:
        said = PRETRAINED if isinstance(model, Pretrained) else TUNED.format(task=model.task.name)
        gr.HTML(f'<header><h1>electra</h1><p>{escape(said)}</p><p class="model">{escape(name)}</p></header>')
        with gr.Tabs():
            if isinstance(model, Pretrained):
                with gr.Tab("Detect"):
                    _detect_tab(model)
                with gr.Tab("Fool it"):
                    _fool_tab(model, page)
            else:
                with gr.Tab("Task"):
                    _task_tab(model)
    return page


def _detect_tab(model: Pretrained) -> None:
    @lru_cache(maxsize=8)  # moving the threshold asks the model nothing new
    def read(text: str) -> list[tokens.Token]:
        return tokens.detect(model, text)

    def show(text: str, threshold: float) -> str:
        try:
            found = read(text)
        except ElectraError as problem:
            return _refusal(problem)
        said = f'<p role="status">{tokens.summary(found, threshold)}</p>'
        return said + tokens.coloured(found, threshold) + tokens.scale()

    text = gr.Textbox(
        TEXT, label="Text", lines=3, max_lines=12, max_length=tokens.LONGEST_TEXT, placeholder="Type or paste a text"
    )
    found = gr.HTML(show(TEXT, tokens.THRESHOLD), elem_id="found")
    threshold = gr.Slider(0.01, 0.99, tokens.THRESHOLD, step=0.01, label="A token looks replaced from a probability of")
    for changed in (text.change, threshold.input):  # to gradio, a text that is pasted with the mouse is no input
        changed(show, [text, threshold], found, **LATEST)


def _fool_tab(model: Pretrained, page: gr.Blocks) -> None:
    if model.generator is None:
        gr.HTML(ALONE)
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
            return [gr.skip()] * (len(choices) + 1) + [_refusal(problem)]
        return [_places(played), *_candidates(played), fooling.show_verdict(played)]

    def surprise(text: str) -> list[Any]:
        return show(text, fooling.pick_places(model, text, random.Random()))

    def judge(text: str, places: list[int], *chosen: int) -> str:
        return fooling.show_verdict(fooling.play_round(model, text, places, chosen[: len(places)]))

    everything = [places, *choices, verdict]
    text.change(lambda text: show(text, []), text, everything, **LATEST)
    places.input(show, [text, places], everything, **LATEST)
    pick.click(surprise, text, everything, **LATEST)
    for choice in choices:
        choice.input(judge, [text, places, *choices], verdict, **LATEST)
    page.load(surprise, text, everything, **LATEST)


def _places(played: Round) -> gr.CheckboxGroup:
    names = [(label, place) for place, label in enumerate(played.sentence.labels)]
    return gr.CheckboxGroup(names, value=list(played.places))


def _candidates(played: Round) -> list[gr.Radio]:
    """Give a row of candidates for each hidden place; the rows that are not needed stay out of sight."""
    rows = [
        gr.Radio(
            [(fooling.describe(candidate), candidate.id) for candidate in offered],
            value=chosen,
            label=f"3. Instead of “{played.sentence.labels[place]}” the generator proposes",
            visible=True,
        )
        for place, offered, chosen in zip(played.places, played.offered, played.chosen, strict=True)
    ]
    return rows + [gr.Radio(visible=False)] * (fooling.MOST_HIDDEN - len(rows))


def _task_tab(tuned: Tuned) -> None:
    def show(*texts: str) -> str:
        try:
            return forms.answer(tuned, texts)
        except ElectraError as problem:
            return _refusal(problem)

    boxes = [
        gr.Textbox(label=field.label, info=field.hint or None, lines=field.lines, max_length=tokens.LONGEST_TEXT)
        for field in forms.fields(tuned)
    ]
    ask = gr.Button("Ask the model", variant="primary")
    found = gr.HTML(show(*("" for _ in boxes)), elem_id="answer")
    for asked in (ask.click, *(box.submit for box in boxes)):
        asked(show, boxes, found, **LATEST)


def _refusal(problem: ElectraError) -> str:
    return f'<p class="problem" role="alert">{escape(str(problem))}</p>'


def launch(page: gr.Blocks, host: str, port: int, browser: bool) -> None:
    """Serve a page in the background, without anything that would ask the outside for fonts, scripts or news."""
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
    )
