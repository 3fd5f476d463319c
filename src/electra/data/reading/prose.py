"""English prose from the documentation of installed Python packages, which are parsed but never imported."""

import ast
import inspect
import re
import sysconfig
import warnings
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from importlib.metadata import distributions
from pathlib import Path

SHORTEST, LONGEST = 60, 2000  # characters per paragraph
COMMON = frozenset("the of to and a in is that for it as be by are with this on or an not if from can".split())
COMMON_SHARE = 0.2  # minimum fraction of common words; code and tables have fewer
LETTER_SHARE = 0.93  # minimum fraction of letters, spaces and punctuation
NO_PROSE = re.compile(r">>>|::|[{}<>\\|=_-]{2}|\w\(\)|https?:|\b(Args|Returns|Raises):")
OF_PROSE = re.compile(r"[A-Za-z ,.;:'\"!?()-]")
DOCUMENTATION = re.compile(rb'"""[^"]{60,}"""|\'[^\'\n]{50,}\'')
DOCUMENTED_SHARE = 0.2  # of a file's bytes; files with less are not worth parsing
LEFT_OUT = ("test", "_vendor", "vendored", "site-packages")  # in paths: repetitive text, or counted elsewhere


def gather_prose(characters: int, roots: Sequence[Path] | None = None) -> list[list[str]]:
    """Collect about this many characters from the standard library and installed packages, without duplicates.

    Each list has the paragraphs of one module or package description. Files are read in a fixed pseudo-random order, so
    that any prefix is a fair sample.
    """
    found: list[list[str]] = []
    seen: set[str] = set()
    size = 0
    for texts in _installed() if roots is None else _modules(roots):
        fresh = list(dict.fromkeys(p for text in texts for p in paragraphs(text) if _key(p) not in seen))
        if not fresh:
            continue
        seen.update(map(_key, fresh))
        found.append(fresh)
        size += sum(map(len, fresh))
        if size >= characters:
            break
    return found


def paragraphs(text: str) -> Iterator[str]:
    """Yield the paragraphs of a text that read like English sentences, each on one line."""
    for block in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        paragraph = " ".join(block.replace("`", "").replace("*", "").split())
        if _is_prose(paragraph):
            yield paragraph


def _is_prose(paragraph: str) -> bool:
    if not SHORTEST <= len(paragraph) <= LONGEST or NO_PROSE.search(paragraph):
        return False
    words = paragraph.lower().split()
    return (
        paragraph[0].isupper()
        and paragraph[-1] in ".!?:"
        and len(OF_PROSE.findall(paragraph)) >= LETTER_SHARE * len(paragraph)
        and sum(word in COMMON for word in words) >= COMMON_SHARE * len(words)
    )


def _key(paragraph: str) -> str:
    """Return the lower-case letters of a paragraph, for comparing paragraphs regardless of numbers and punctuation."""
    return re.sub(r"[^a-z]", "", paragraph.lower())


def _installed() -> Iterator[list[str]]:
    """Yield the descriptions of all installed packages, then the strings of their modules."""
    for distribution in sorted(distributions(), key=lambda found: found.name or ""):
        yield [distribution.read_text("METADATA") or ""]
    paths = sysconfig.get_paths()
    yield from _modules(
        [Path(folder) for folder in dict.fromkeys(paths[key] for key in ("stdlib", "purelib", "platlib"))]
    )


def _modules(roots: Sequence[Path]) -> Iterator[list[str]]:
    """Yield the longer strings of every module: docstrings, help texts, and others that `paragraphs` drops."""
    files = [(root, path.relative_to(root)) for root in roots for path in root.rglob("*.py")]
    chosen = [pair for pair in files if not any(word in part for part in pair[1].parts for word in LEFT_OUT)]
    for root, path in sorted(chosen, key=lambda pair: _place(pair[1])):
        yield _strings(root / path)


def _place(path: Path) -> tuple[bool, bytes]:
    """Return the sort key of a file: random, after the texts of Python's `help`, which have the most prose."""
    return path.parts[0] != "pydoc_data", blake2b(path.as_posix().encode(), digest_size=8).digest()


def _strings(path: Path) -> list[str]:
    try:
        source = path.read_bytes()
        if sum(map(len, DOCUMENTATION.findall(source))) < DOCUMENTED_SHARE * len(source):
            return []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in strings
            tree = ast.parse(source)
    except (SyntaxError, ValueError, OSError, RecursionError, MemoryError):
        return []  # many packages have templates and broken modules
    constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
    return [value for value in constants if isinstance(value, str) and len(value) >= SHORTEST]
