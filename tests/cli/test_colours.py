from rich.style import Style

from electra.cli.colours import shade


def test_the_likelier_a_token_is_replaced_the_redder_it_is():
    colours = [Style.parse(shade(probability)).bgcolor.triplet for probability in (0.0, 0.5, 1.0)]
    assert [colour.red - colour.green for colour in colours] == [0, 110, 220]
