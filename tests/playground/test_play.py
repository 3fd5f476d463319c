import socket
import sys

import pytest

import electra
from electra.cli.play import play
from electra.errors import CheckpointError, ConfigError, ElectraError
from electra.model.networks import Discriminator
from electra.model.pretrained import Pretrained
from electra.playground import play as module
from electra.playground.fooling import play_round
from electra.playground.play import load_playable
from electra.recipes.convert import write_model
from electra.recipes.evaluate import Tuned

needs_gradio = pytest.mark.skipif(module.find_spec("gradio") is None, reason="needs the extra play")


@needs_gradio
def test_a_port_in_use_is_a_one_line_error(tiny_folder):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"^port {port} is in use; choose another with --port, such as"):
            electra.play(tiny_folder, port, browser=False)


@needs_gradio
def test_the_rows_of_proposals_are_one_step(tiny_model):
    from electra.playground.page import _candidates

    rows = _candidates(play_round(tiny_model, "the chef ate a meal", [1, 4]))
    assert [row.label and row.label.split("“")[0] for row in rows[:3]] == ["3. Replace ", "Replace ", None]


def test_a_terminal_shows_at_once_that_the_page_is_loading(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    with pytest.raises(ElectraError):
        play("./nowhere")
    assert "loading the model and the page" in capsys.readouterr().err


def test_without_gradio_the_extra_is_named(monkeypatch, tiny_folder):
    monkeypatch.setitem(sys.modules, "gradio", None)
    with pytest.raises(ConfigError, match=r"pip install '\.\[play\]' in the checkout"):
        electra.play(tiny_folder)


def test_a_pretrained_model_is_loaded_with_its_generator(tiny_folder):
    model = load_playable(tiny_folder)
    assert isinstance(model, Pretrained)
    assert isinstance(model.network, Discriminator)
    assert model.generator is not None


def test_a_fine_tuned_run_is_loaded_with_its_task(tuned_run):
    model = load_playable(tuned_run("pairs"))
    assert isinstance(model, Tuned)
    assert [field.label for field in model.task.fields] == ["Sentence 1", "Sentence 2"]


def test_a_model_with_only_a_generator_is_refused(tiny_model, tmp_path):
    write_model(Pretrained(tiny_model.generator, tiny_model.tokenizer), tmp_path / "generator")
    with pytest.raises(CheckpointError, match="neither a discriminator nor a task head"):
        load_playable(tmp_path / "generator")
