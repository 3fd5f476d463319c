"""Examples to predict: a table with the columns of the texts, or plain lines with tabs between the texts."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from electra.config.keys import did_you_mean
from electra.data.reading.records import Row, read_lines, read_rows, whole
from electra.data.reading.sources import find_sources
from electra.errors import TaskError


def read_inputs(source: str, columns: Sequence[str], other_names: Mapping[str, str] | None = None) -> Iterator[Row]:
    """Read records that have the columns from a table, or from lines of text or JSON; `-` is standard input.

    `other_names` maps alternative column names to the expected ones.
    """
    plain = find_sources([source])[0][0].format == "text"
    for where, cells in _line_rows(source, columns) if plain else read_rows(source):
        cells = {(other_names or {}).get(name, name): value for name, value in cells.items()}
        if missing := [column for column in columns if column not in cells]:
            found = list(map(str, cells))
            hint = did_you_mean(missing[0], [name for name in found if name not in columns])
            raise TaskError(f"{where}: no column {missing[0]!r}; found {', '.join(found) or 'none'}{hint}")
        texts = {column: read_cell(cells[column], where) for column in columns}
        yield Row(where, cells | {column: "" if text is None else text for column, text in texts.items()})


def read_cell(value: Any, where: str) -> Any:
    """Return the value of a cell: NaN, which pandas writes, is None; bytes are decoded."""
    if isinstance(value, float) and value != value:
        return None
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        raise TaskError(f"{where}: bytes that are not UTF-8") from None


def _is_header(line: str, columns: Sequence[str]) -> bool:
    """Return whether a line has the names of the columns; other names are a word, or two if there are several."""
    names = {name.strip().strip('"') for name in re.split("[,;\t]", line)}
    others = names - set(columns)
    short = r"[\w.-]*( [\w.-]+)?" if len(others) > 1 else r"[\w.-]*"
    return names >= set(columns) and all(re.fullmatch(short, name) for name in others)


def _line_rows(source: str, columns: Sequence[str]) -> Iterator[Row]:
    """Read one example per line; empty lines are refused, so that predictions match line numbers."""
    empty: int | None = None  # the first empty line; empty lines at the end are ignored
    for number, line in enumerate(read_lines(source), 1):
        where = f"{source} line {number}"
        if number == 1 and _is_header(line, columns):
            advice = "save it to a file and name that" if source == "-" else "rename the file"
            raise TaskError(f"{where} is the header of a table; {advice}, ending in .csv or .tsv")
        if not line.strip():
            empty = empty or number
        elif empty:
            raise TaskError(f"{source} line {empty} is empty; each line must be an example: remove it, or use a table")
        elif re.match(r'\{\s*["}]', line):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as problem:
                raise TaskError(f"{where}: not a JSON record: {problem}") from None
            yield Row(where, whole(record, where))
        else:
            texts = line.split("\t")
            if len(texts) != len(columns):
                raise TaskError(f"{where}: {len(texts)} texts instead of {len(columns)}; separate texts with a tab")
            yield Row(where, dict(zip(columns, texts, strict=True)))
