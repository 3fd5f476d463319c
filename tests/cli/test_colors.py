import pytest
from rich.style import Style

from electra.cli.colors import shade, shows_colors


@pytest.mark.parametrize(("setting", "shown"), [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)])
def test_colors_need_a_terminal_that_supports_them(monkeypatch, setting, shown):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for name, value in ({"TERM": "xterm-256color"} | setting).items():
        monkeypatch.setenv(name, value)
    assert shows_colors() == shown


def test_likelier_replaced_tokens_are_redder():
    colors = [Style.parse(shade(probability)).bgcolor.triplet for probability in (0.0, 0.5, 1.0)]
    assert [color.red - color.green for color in colors] == [0, 110, 220]
