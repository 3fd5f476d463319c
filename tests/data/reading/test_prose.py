"""Prose from source files: what counts, what does not, and no duplicates."""

import pytest

from electra.data.reading.prose import gather_prose, paragraphs

SENTENCE = "This is the way in which the words of a sentence are put on the page."
MODULE = f'"""{SENTENCE}\n\n    >>> code(1)\n"""\nraise SystemExit("a module that is run")\n'


@pytest.fixture
def library(tmp_path):
    folder = tmp_path / "site-packages"
    for name, text in {
        "one/a.py": MODULE,
        "one/same.py": MODULE,
        "two/b.py": f'def f():\n    """Another one: {SENTENCE}"""\n',
        "two/tests/c.py": f'"""Tested: {SENTENCE}"""\n',
        "two/broken.py": f'"""Broken: {SENTENCE}"""\nthis is no Python\n',
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_sentences_are_kept_on_one_line():
    assert list(paragraphs(f"  {SENTENCE[:30]}\n  {SENTENCE[30:]}")) == [
        " ".join(f"{SENTENCE[:30]} {SENTENCE[30:]}".split())
    ]


@pytest.mark.parametrize(
    "text",
    [
        ">>> the_result_of(a, call) is not in the prose of a module that we are to read.",
        "x = 1; y = 2; z = x + y; print(x, y, z); assert z == 3, 'the sum of the two is wrong'.",
        "Args: the first is the name of a file and the second is the mode in which it is opened.",
        "Short.",
        "Alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigma.",
    ],
)
def test_code_tables_and_fragments_are_not_prose(text):
    assert list(paragraphs(text)) == []


def test_paragraphs_are_not_repeated(library):
    found = [paragraph for part in gather_prose(10_000, [library]) for paragraph in part]
    assert sorted(found) == [f"Another one: {SENTENCE}", SENTENCE]


def test_modules_are_read_but_not_run(library):
    assert gather_prose(10_000, [library])


def test_gathering_stops_at_the_requested_size(library):
    assert len(gather_prose(1, [library])) == 1


def test_the_order_is_always_the_same(library):
    assert gather_prose(10_000, [library]) == gather_prose(10_000, [library])


def test_the_installed_packages_have_prose():
    found = gather_prose(50_000)
    assert 50_000 <= sum(len(paragraph) for part in found for paragraph in part) < 500_000


def test_what_an_interrupted_installation_left_has_no_name(tmp_path, monkeypatch):
    (tmp_path / "half-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert gather_prose(10_000)
