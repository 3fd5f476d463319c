"""The files of multiple choice: tables, and the XML of the original COPA."""

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from electra.data.reading.records import Row, read_rows
from electra.data.reading.sources import Source, read_chunks
from electra.errors import TaskError
from electra.tasks.table.files import ENDINGS

XML = ".xml"
FILES = (*ENDINGS, XML)


def read_file(source: str) -> Iterator[Row]:
    """Read the rows of a table or of COPA's XML; `-` has JSON lines."""
    return _read_copa(source) if XML in Path(source).suffixes[-2:] else read_rows(source)


def _read_copa(source: str) -> Iterator[Row]:
    """Read items under the column names of SuperGLUE's COPA, which counts labels from 0."""
    try:
        root = ElementTree.fromstring(b"".join(read_chunks(Source(source, "text"))))
    except ElementTree.ParseError as problem:
        raise TaskError(f"{source} is not XML: {problem}") from None
    for item in root.iter("item"):
        where = f"{source} item {item.get('id')}"
        cells: dict[str, str | int | None] = {"premise": item.findtext("p"), "question": item.get("asks-for")}
        cells |= {"choice1": item.findtext("a1"), "choice2": item.findtext("a2"), "idx": item.get("id")}
        if right := item.get("most-plausible-alternative"):
            if right not in ("1", "2"):
                raise TaskError(f"{where}: most-plausible-alternative is {right!r}; allowed: 1, 2")
            cells["label"] = int(right) - 1
        yield Row(where, cells)
