"""Read records and their texts from JSON lines, CSV, Parquet and Hugging Face datasets."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, NamedTuple

from electra.data.reading.decode import Decoder
from electra.data.reading.sources import Source, each, find_sources, open_raw, read_chunks, readable
from electra.errors import DataError

TEXT_COLUMNS = ("text", "content", "document", "body", "article", "sentence")
RECORD_LIMIT = 1 << 26  # characters; a record must fit into memory several times
START = 1000  # lines from which quoting and delimiter are detected
HUB = "no file or folder {name}, and no such dataset on the Hugging Face Hub"
ROWS = 64  # read at a time from a Parquet file; a row may hold a book

Columns = dict[frozenset[str], str]  # the columns of a table: its text column


class Row(NamedTuple):
    """A record and its location, for error messages."""

    where: str
    cells: Mapping[str, Any]


def read_rows(name: str) -> Iterator[Row]:
    """Yield the records of a file, a hub dataset (OWNER/NAME:CONFIG:SPLIT) or standard input (`-`, JSON lines)."""
    sources, _ = find_sources([name], "jsonl" if name == "-" else None)
    for source in sources:
        if source.format == "text":
            raise DataError(f"{name} is not a table; use .csv, .tsv, .jsonl or .parquet")
        for where, record in _records(source, _decoded(source)):
            if isinstance(record, str):
                raise DataError(f"{where}: found a JSON string; each line must be an object")
            yield Row(where, whole(record, where) if source.format == "jsonl" else record)


def whole(record: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Return the record, or raise an error if it has lone surrogates, which JSON can express but tokenizers reject."""
    if found := re.search("[\ud800-\udfff]", json.dumps(record, ensure_ascii=False)):
        raise DataError(f"{where}: a lone surrogate (U+{ord(found[0]):04X}); write the complete character")
    return record


def read_lines(name: str) -> Iterator[str]:
    """Yield the lines of a file or of standard input (`-`) without line ends."""
    for source in find_sources([name])[0]:
        for line in _lines(_decoded(source), source.name):
            yield line.rstrip("\n")


def read_texts(
    source: Source,
    column: str | None,
    decoded: Iterable[str],
    count_bytes: Callable[[int], None] = lambda count: None,
    columns: Columns | None = None,
) -> Iterator[str]:
    """Yield the text of each record; `decoded` is the decoded stream, for text formats.

    `count_bytes` is called for Parquet only, in proportion to the rows; other streams count their own bytes.
    `columns` remembers the text column of each kind of table, so that all its files use the same one.
    """
    columns = {} if columns is None else columns
    if source.format == "parquet":
        return _parquet_texts(source, column, count_bytes, columns)
    return _texts(_records(source, decoded), column, columns)


def _decoded(source: Source) -> Iterator[str]:
    return Decoder(source.name).decode(read_chunks(source))


def _records(source: Source, decoded: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """Yield the records of a source with their locations; `decoded` is the decoded stream, for text formats."""
    if source.format == "parquet":
        with _opened(source) as file:
            yield from _parquet_rows(file, source)
    elif source.format == "dataset":
        yield from _dataset_rows(source)
    elif source.format == "jsonl":
        yield from _json_records(_lines(decoded, source.name), source.name)
    else:
        yield from _csv_rows(_lines(decoded, source.name), source)


def find_column(record: Mapping[str, Any], column: str | None, where: str) -> str:
    """Return the text column: the requested one, one with a usual name, or the one with the longest text."""
    if column is not None:
        if column not in record:
            raise DataError(f"{where}: no column {column}; found {', '.join(map(str, record)) or 'none'}")
        return column
    texts = {name: value for name, value in record.items() if isinstance(value, str)}
    usual = [name for name in TEXT_COLUMNS if name in record and (name in texts or record[name] is None)]
    if not texts and not usual:
        raise DataError(f"{where}: no column with text; found {', '.join(map(str, record)) or 'none'}")
    return usual[0] if usual else max(texts, key=lambda name: len(texts[name]))


def _text_column(record: Mapping[str, Any], column: str | None, where: str, columns: Columns) -> str:
    """Return the text column, the same as in an earlier table with the same columns."""
    kind = frozenset(record)
    columns[kind] = find_column(record, columns.get(kind) if column is None else column, where)
    return columns[kind]


def _text_of(value: object, column: str, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise DataError(f"{where}: column {column} holds {type(value).__name__}, not text")
    return value


def _lines(texts: Iterable[str], name: str) -> Iterator[str]:
    rest = ""
    for text in texts:
        *lines, rest = (rest + text).split("\n")
        yield from (line + "\n" for line in lines)
        if len(rest) > RECORD_LIMIT:
            raise DataError(f"{name}: a record has more than {RECORD_LIMIT:,} characters; is this a file of records?")
    if rest:
        yield rest


def _texts(
    records: Iterable[tuple[str, Mapping[str, Any] | str]], column: str | None, columns: Columns
) -> Iterator[str]:
    """Yield the text of each record; the text column is detected from the first records."""
    records = iter(records)
    start = list(islice(records, ROWS))
    tables = [(where, record) for where, record in start if not isinstance(record, str)]
    if tables:
        column = _text_column(longest(record for _, record in tables), column, tables[0][0], columns)
    for where, record in chain(start, records):
        if isinstance(record, str):
            yield record
        else:
            column = find_column(record, column, where)
            yield _text_of(record[column], column, where)


def _json_records(lines: Iterable[str], name: str) -> Iterator[tuple[str, dict[str, Any] | str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name} line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            found = f"{problem.msg}, column {problem.colno}" if isinstance(problem, json.JSONDecodeError) else problem
            raise DataError(f"{where}: not a JSON record: {found}") from None
        if not isinstance(record, dict | str):
            raise DataError(f"{where}: found a JSON {type(record).__name__}; each line must be an object or a string")
        yield where, record


def _csv_rows(lines: Iterable[str], source: Source) -> Iterator[Row]:
    csv.field_size_limit(RECORD_LIMIT)
    lines = iter(lines)
    start = list(islice(lines, START))
    declared = re.fullmatch("sep=(.)\r?\n", start[0]) if start else None  # written by some spreadsheets
    start = start[1:] if declared else start
    guessed = max(",;\t", key="".join(start[:1]).count)  # some spreadsheets write semicolons or tabs
    delimiter = declared[1] if declared else "\t" if source.format == "tsv" else guessed
    plain = source.format == "tsv" and not uses_quotes(start)
    rows = csv.reader(chain(start, lines), delimiter=delimiter, quotechar=None if plain else '"', strict=True)

    def line(number: int) -> str:
        return f"{source.name} line {number + bool(declared)}"

    complete = 0  # lines of complete rows
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_names(header, source)
        empty: list[Row] = []  # lines that are a row if the table has one column, but not at its end
        complete = rows.line_num
        for row in rows:
            complete = rows.line_num
            if row and len(row) != len(header):
                raise DataError(f"{line(complete)}: {len(row)} fields, but the header has {len(header)}")
            if row:
                yield from empty
                empty = []
                yield Row(line(complete), dict(zip(header, row, strict=True)))
            elif len(header) == 1:
                empty.append(Row(line(complete), {header[0]: ""}))
    except csv.Error as problem:
        if "unexpected end" in str(problem):  # which may be many lines below
            raise DataError(f"{line(complete + 1)}: a quoted field begins here and does not end") from None
        raise DataError(f"{line(rows.line_num)}: {problem}") from None


def _check_names(names: list[str], source: Source) -> None:
    if twice := [name for name in names if names.count(name) > 1]:
        raise DataError(f"{source.name}: two columns are called {twice[0]!r}")


def uses_quotes(start: list[str]) -> bool:
    """Return whether tab-separated lines use quoted fields, or quotes are plain characters."""
    rows = [line.rstrip("\n").split("\t") for line in start]
    begun = [field for row in rows for field in row if field.startswith('"')]
    if len({len(row) for row in rows}) > 1:
        return bool(begun)  # tabs or line ends within quotes
    return bool(begun) and all(re.fullmatch('"([^"]|"")*"', field) for field in begun)


def _parquet_texts(
    source: Source, column: str | None, count_bytes: Callable[[int], None], columns: Columns
) -> Iterator[str]:
    """Yield the text of each row, reading only the text column."""
    if source.name == "-":
        raise DataError("Parquet cannot be read from standard input; give a file")
    with _opened(source) as file:
        schema = file.schema_arrow
        strings = [field.name for field in schema if _is_string(field.type)]
        if file.metadata.num_rows:
            sample = [row.cells for row in islice(_parquet_rows(file, source, strings), ROWS)]
            record = {**dict.fromkeys(schema.names, 0), **longest(sample)}  # columns other than strings are not read
            column = _text_column(record, column, source.name, columns)
            for row in _parquet_rows(file, source, [column], count_bytes):
                yield _text_of(row.cells[column], column, source.name)


@contextmanager
def _opened(source: Source) -> Iterator[Any]:
    with ExitStack() as stack:
        with readable(source.name):
            from pyarrow import parquet

            file = parquet.ParquetFile(stack.enter_context(open_raw(source)))
        _check_names(file.schema_arrow.names, source)
        yield file


def _parquet_rows(
    file: Any, source: Source, names: list[str] | None = None, count_bytes: Callable[[int], None] = lambda count: None
) -> Iterator[Row]:
    with readable(source.name):
        batches = file.iter_batches(batch_size=ROWS, columns=names)
        records = (row for batch in batches for row in (batch.to_pylist() if names is None else _with_bad_bytes(batch)))
    row_bytes = (source.size or 0) / max(file.metadata.num_rows, 1)
    for number, record in enumerate(each(records, source.name), 1):
        count_bytes(int(row_bytes * number) - int(row_bytes * (number - 1)))
        yield Row(f"{source.name} row {number}", record)


def _with_bad_bytes(batch: Any) -> list[dict[str, Any]]:
    """Return the rows of a batch; invalid bytes become lone surrogates, which `Decoder.mend` handles."""
    columns = [_strings(column) if _is_string(column.type) else column.to_pylist() for column in batch.columns]
    return [dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _strings(column: Any) -> list[str | None]:
    from pyarrow import large_binary

    cells = column.cast(large_binary()).to_pylist()
    return [None if cell is None else cell.decode(errors="surrogateescape") for cell in cells]


def _is_string(kind: Any) -> bool:
    from pyarrow import types

    kind = kind.value_type if types.is_dictionary(kind) else kind
    return str(kind) in ("string", "large_string", "string_view", "null")


def longest(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a record with the longest text of each column."""
    joined: dict[str, Any] = {}
    for record in records:
        for name, value in record.items():
            longest = joined.get(name)
            if longest is None or (isinstance(value, str) and len(value) > len(str(longest))):
                joined[name] = value
    return joined


@cache
def dataset_splits(name: str) -> tuple[str, ...]:
    """Return the names of the splits of a hub dataset, OWNER/NAME[:CONFIG]."""
    with readable(name, HUB):
        from datasets import get_dataset_split_names

        path, config = (*name.split(":"), "")[:2]
        return tuple(get_dataset_split_names(path, config or None))


def _dataset_rows(source: Source) -> Iterator[Row]:
    with readable(source.name, HUB):
        from datasets import load_dataset

        name, config, split = (*source.name.split(":"), "", "")[:3]
        records = iter(load_dataset(name, config or None, split=split or "train", streaming=True))
    for number, record in enumerate(each(records, source.name), 1):
        yield Row(f"{source.name} row {number}", record)
