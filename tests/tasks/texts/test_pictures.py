import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from electra.tasks.texts.pictures import calibration, confusion, expected_error

SVG = "{http://www.w3.org/2000/svg}"


def texts(picture):
    return [element.text for element in ElementTree.fromstring(picture).iter(f"{SVG}text")]


def test_every_pair_of_classes_has_its_count():
    truth, guess = ["cat", "cat", "dog", "dog", "dog"], ["cat", "dog", "dog", "dog", "dog"]
    found = texts(confusion(["cat", "dog"], truth, guess))
    assert found[-4:] == ["1", "1", "0", "3"]
    assert found.count("cat") == found.count("dog") == 2


def test_names_cannot_break_the_picture():
    assert "<a> & b" in texts(confusion(["<a> & b", "c"], ["c"], ["<a> & b"]))


def test_the_expected_error_is_the_distance_of_confidence_from_truth():
    assert expected_error([0.95] * 20, [True] * 19 + [False]) == pytest.approx(0.0, abs=1e-9)
    assert expected_error([0.9] * 10, [True] * 5 + [False] * 5) == pytest.approx(0.4)
    assert expected_error([0.6, 1.0], [False, True]) == pytest.approx(0.3)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=30))
def test_any_confidence_can_be_drawn(pairs):
    picture = calibration([value for value, _ in pairs], [right for _, right in pairs])
    assert "expected calibration error" in texts(picture)[1]
