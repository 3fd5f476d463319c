"""The colours of the page, made so that no meaning hangs on telling hues apart."""

import numpy as np

Colour = tuple[int, int, int]

# From paper over amber to a deep brown: each is darker than the one before, so the order shows without any hue.
STOPS: tuple[Colour, ...] = ((255, 253, 247), (253, 190, 90), (128, 38, 6))
KINDS: tuple[Colour, ...] = (  # pale, for marks that also carry their name
    *((190, 220, 245), (253, 217, 160), (195, 232, 205)),
    *((240, 200, 225), (246, 240, 160), (212, 206, 240)),
)
BLACK: Colour = (0, 0, 0)
WHITE: Colour = (255, 255, 255)


def css(colour: Colour) -> str:
    """Write a colour for a style sheet."""
    return f"rgb({colour[0]}, {colour[1]}, {colour[2]})"


def shade(probability: float) -> Colour:
    """Give the background of a probability."""
    places = np.linspace(0, 1, len(STOPS))
    red, green, blue = (round(float(np.interp(probability, places, channel))) for channel in zip(*STOPS, strict=True))
    return red, green, blue


def ink(background: Colour) -> Colour:
    """Give black or white, whichever is read more easily: at least 4.5 to 1 for any background."""
    return max(BLACK, WHITE, key=lambda colour: contrast(colour, background))


def contrast(one: Colour, other: Colour) -> float:
    """Give the contrast ratio of the Web Content Accessibility Guidelines, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def gradient() -> str:
    """Give the whole scale as the background of a bar."""
    return f"linear-gradient(to right, {', '.join(map(css, STOPS))})"


def _luminance(colour: Colour) -> float:
    shares = (channel / 255 for channel in colour)
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))
