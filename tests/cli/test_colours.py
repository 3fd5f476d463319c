import pytest
from rich.style import Style

from electra.cli.colours import shade, shows_colours


@pytest.mark.parametrize(("setting", "shown"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colours_are_for_terminals_that_have_them(monkeypatch, setting, shown):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in ({"TERM": "xterm-256color"} | setting).items():
        monkeypatch.setenv(name, value)
    assert shows_colours() == shown


def test_the_likelier_a_token_is_replaced_the_redder_it_is():
    colours = [Style.parse(shade(probability)).bgcolor.triplet for probability in (0.0, 0.5, 1.0)]
    assert [colour.red - colour.green for colour in colours] == [0, 110, 220]
