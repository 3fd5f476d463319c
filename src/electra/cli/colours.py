"""Tokens in a terminal, coloured by the probability that they were replaced."""


def shows_colours() -> bool:
    """Say whether standard output is a terminal with colours, which NO_COLOR turns off."""
    from rich.console import Console

    console = Console()
    return console.is_terminal and not console.no_color and console.color_system is not None


def shade(probability: float) -> str:
    """Give the style of a token, in the words of rich: the redder, the likelier it was replaced."""
    return f"on rgb({int(40 + 180 * probability)},{int(40 * (1 - probability))},40) white"
