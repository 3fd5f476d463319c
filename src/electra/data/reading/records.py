"""Records, and texts out of them: JSON lines, CSV, Parquet, and datasets of the hub."""

import csv
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import chain, islice
from typing import Any, NamedTuple

from electra.data.reading.decode import Decoder
from electra.data.reading.sources import Source, find_sources, open_raw, read_chunks, readable
from electra.errors import DataError

TEXT_COLUMNS = ("text", "content", "document", "body", "article", "sentence")
RECORD_LIMIT = 1 << 26  # characters; a record is parsed whole, so it has to fit into memory several times
START = 1000  # lines that show how a table is written
HUB = "no file or folder {name} here, and the hub gives no such dataset"
ROWS = 64  # of a Parquet file at a time; rows may hold whole books

Columns = dict[frozenset[str], str]  # all columns of a table: the one that holds its text


class Row(NamedTuple):
    """One record and its place, as messages name it."""

    where: str
    cells: Mapping[str, Any]


def read_rows(name: str) -> Iterator[Row]:
    """Read the records of a file or a hub dataset (OWNER/NAME:CONFIG:SPLIT), one at a time; `-` has JSON lines."""
    sources, _ = find_sources([name], "jsonl" if name == "-" else None)
    for source in sources:
        if source.format == "text":
            raise DataError(f"{name} is no table: give .csv, .tsv, .jsonl or .parquet")
        for where, record in _records(source, _decoded(source)):
            if isinstance(record, str):
                raise DataError(f"{where}: a JSON string; each line has to be an object")
            yield Row(where, whole(record, where) if source.format == "jsonl" else record)


def whole(record: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """Refuse a record with halves of surrogate pairs, which JSON can spell but no tokenizer reads."""
    if half := re.search("[\ud800-\udfff]", json.dumps(record, ensure_ascii=False)):
        raise DataError(f"{where}: half a surrogate pair (U+{ord(half[0]):04X}): write the whole character, or none")
    return record


def read_lines(name: str) -> Iterator[str]:
    """Read the lines of a file or of standard input (`-`), one at a time, without their ends."""
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
    """Give the text of each record; `decoded` is the stream's text, for the formats that are text.

    Bytes are counted here where the stream does not: a Parquet file has as many read as it has rows.
    `columns` remembers the column of each kind of table, so that all files of a kind are read alike.
    """
    columns = {} if columns is None else columns
    if source.format == "parquet":
        return _parquet_texts(source, column, count_bytes, columns)
    return _texts(_records(source, decoded), column, columns)


def _decoded(source: Source) -> Iterator[str]:
    return Decoder(source.name).decode(read_chunks(source))


def _records(source: Source, decoded: Iterable[str]) -> Iterator[tuple[str, Mapping[str, Any] | str]]:
    """Give the records of a source, each with its place; `decoded` is its text, for the formats that are text."""
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
    """Name the column that holds the text: the one asked for, one of the usual names, or the longest text."""
    if column is not None:
        if column not in record:
            raise DataError(f"{where}: no column {column}; found {', '.join(map(str, record)) or 'none'}")
        return column
    texts = {name: value for name, value in record.items() if isinstance(value, str)}
    usual = [name for name in TEXT_COLUMNS if name in record and (name in texts or record[name] is None)]
    if not texts and not usual:
        raise DataError(f"{where}: no column with text; found {', '.join(map(str, record)) or 'none'}")
    return usual[0] if usual else max(texts, key=lambda name: len(texts[name]))


def _remembered(record: Mapping[str, Any], column: str | None, where: str, columns: Columns) -> str:
    """Name the column that holds the text: what an earlier table with these columns was found to have is kept to."""
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
    held: list[str] = []
    size = 0
    for text in texts:
        first, *others = text.split("\n")
        held.append(first)
        size += len(first)
        if others:
            yield "".join(held) + "\n"
            yield from (line + "\n" for line in others[:-1])
            held, size = [others[-1]], len(others[-1])
        if size > RECORD_LIMIT:
            raise DataError(f"{name}: a record of more than {RECORD_LIMIT:,} characters; is it a file of records?")
    if size:
        yield "".join(held)


def _texts(
    records: Iterable[tuple[str, Mapping[str, Any] | str]], column: str | None, columns: Columns
) -> Iterator[str]:
    """Give the text of each record; which column holds it, the first records say together."""
    records = iter(records)
    start = list(islice(records, ROWS))
    tables = [(where, record) for where, record in start if not isinstance(record, str)]
    if tables:
        column = _remembered(_longest(record for _, record in tables), column, tables[0][0], columns)
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
            raise DataError(f"{where}: not a JSON record: {problem}") from None
        if not isinstance(record, dict | str):
            raise DataError(f"{where}: a JSON {type(record).__name__}; each line has to be an object or a string")
        yield where, record


def _csv_rows(lines: Iterable[str], source: Source) -> Iterator[Row]:
    csv.field_size_limit(RECORD_LIMIT)
    lines = iter(lines)
    start = list(islice(lines, START))
    said = re.fullmatch("sep=(.)\r?\n", start[0]) if start else None  # a line that spreadsheets like to begin with
    start = start[1:] if said else start
    delimiter = said[1] if said else "\t" if source.format == "tsv" else _delimiter(start)
    plain = source.format == "tsv" and not uses_quotes(start)
    rows = csv.reader(chain(start, lines), delimiter=delimiter, quotechar=None if plain else '"', strict=True)
    header: list[str] | None = None

    def here() -> str:
        return f"{source.name} line {rows.line_num + bool(said)}"

    try:
        for row in rows:
            if header is None:
                header = [name.strip() for name in row]
                if twice := [name for name in header if header.count(name) > 1]:
                    raise DataError(f"{source.name}: two columns are called {twice[0]!r}")
                continue
            if not row:
                continue
            if len(row) != len(header):
                raise DataError(f"{here()}: {len(row)} fields under a header of {len(header)}")
            yield Row(here(), dict(zip(header, row, strict=True)))
    except csv.Error as problem:
        raise DataError(f"{here()}: {problem}") from None


def _delimiter(start: list[str]) -> str:
    """Give what stands between the columns of a header: a comma, or what some countries' spreadsheets write."""
    return max(",;\t", key="".join(start[:1]).count)


def uses_quotes(start: list[str]) -> bool:
    """Tell whether tab-separated lines put fields into quotes, or mean every quote as it stands."""
    rows = [line.rstrip("\n").split("\t") for line in start]
    begun = [field for row in rows for field in row if field.startswith('"')]
    if len({len(row) for row in rows}) > 1:
        return bool(begun)  # tabs or line ends inside of quotes
    return bool(begun) and all(re.fullmatch('"([^"]|"")*"', field) for field in begun)


def _parquet_texts(
    source: Source, column: str | None, count_bytes: Callable[[int], None], columns: Columns
) -> Iterator[str]:
    """Give the text of each row; no other column is read than the one that holds it."""
    if source.name == "-":
        raise DataError("standard input cannot be Parquet, which is read from its end; name a file")
    with _opened(source) as file:
        schema = file.schema_arrow
        strings = [field.name for field in schema if _is_string(field.type)]
        if file.metadata.num_rows:
            sample = [row.cells for row in islice(_parquet_rows(file, source, strings), ROWS)]
            record = {**dict.fromkeys(schema.names, 0), **_longest(sample)}  # what is no string is not even read
            column = _remembered(record, column, source.name, columns)
            for row in _parquet_rows(file, source, [column], count_bytes):
                yield _text_of(row.cells[column], column, source.name)


@contextmanager
def _opened(source: Source) -> Iterator[Any]:
    with ExitStack() as stack:
        with readable(source.name):
            from pyarrow import parquet

            file = parquet.ParquetFile(stack.enter_context(open_raw(source)))
        yield file


def _parquet_rows(
    file: Any, source: Source, names: list[str] | None = None, count_bytes: Callable[[int], None] = lambda count: None
) -> Iterator[Row]:
    with readable(source.name):
        batches = file.iter_batches(batch_size=ROWS, columns=names)
    number = 0
    each = (source.size or 0) / max(file.metadata.num_rows, 1)  # bytes of a row
    while True:
        with readable(source.name):
            batch = next(batches, None)
            records = [] if batch is None else batch.to_pylist() if names is None else _with_bad_bytes(batch)
        if batch is None:
            return
        for record in records:
            count_bytes(int(each * (number + 1)) - int(each * number))
            number += 1
            yield Row(f"{source.name} row {number}", record)


def _with_bad_bytes(batch: Any) -> list[dict[str, Any]]:
    """Give the rows of a batch; a byte that is no UTF-8 is half a surrogate pair, which `Decoder.mend` treats."""
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


def _longest(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join records into one that holds the longest text of each column."""
    joined: dict[str, Any] = {}
    for record in records:
        for name, value in record.items():
            longest = joined.get(name)
            if longest is None or (isinstance(value, str) and len(value) > len(str(longest))):
                joined[name] = value
    return joined


@cache
def dataset_splits(name: str) -> tuple[str, ...]:
    """Name the parts of a dataset of the hub, OWNER/NAME[:CONFIG]."""
    with readable(name, HUB):
        from datasets import get_dataset_split_names

        path, config = (*name.split(":"), "")[:2]
        return tuple(get_dataset_split_names(path, config or None))


def _dataset_rows(source: Source) -> Iterator[Row]:
    with readable(source.name, HUB):
        from datasets import load_dataset

        name, config, split = (*source.name.split(":"), "", "")[:3]
        records = iter(load_dataset(name, config or None, split=split or "train", streaming=True))
    number = 0
    while True:
        with readable(source.name):
            record = next(records, None)
        if record is None:
            return
        number += 1
        yield Row(f"{source.name} row {number}", record)
