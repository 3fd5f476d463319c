"""Color tokens in a terminal by the probability that they were replaced."""


def shows_colors() -> bool:
    """Return whether standard output is a terminal with colors (NO_COLOR turns them off)."""
    from rich.console import Console

    console = Console()
    return console.is_terminal and not console.no_color and console.color_system is not None


def shade(probability: float) -> str:
    """Return the rich style of a token: the redder, the likelier it was replaced."""
    return f"on rgb({int(40 + 180 * probability)},{int(40 * (1 - probability))},40) white"
