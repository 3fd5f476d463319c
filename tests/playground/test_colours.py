from itertools import pairwise

import numpy as np
import pytest

from electra.playground.colours import BLACK, KINDS, WHITE, contrast, ink, shade

PROBABILITIES = np.linspace(0, 1, 101)


def test_a_likelier_token_is_darker_so_that_the_order_shows_without_hue():
    lightness = [contrast(shade(probability), BLACK) for probability in PROBABILITIES]
    assert all(later < earlier for earlier, later in pairwise(lightness))


def test_every_shade_can_be_read():
    for background in map(shade, PROBABILITIES):
        assert contrast(ink(background), background) >= 4.5
    assert all(contrast(BLACK, background) >= 4.5 for background in KINDS)


def test_contrast_is_that_of_the_guidelines():
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast((119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)  # the grey that just fails
