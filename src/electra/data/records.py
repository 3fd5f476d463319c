"""Texts out of records: JSON lines, CSV, Parquet, and datasets of the hub."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

from electra.data.sources import Source, open_raw, readable
from electra.errors import DataError

TEXT_COLUMNS = ("text", "content", "document", "body", "article", "sentence")
RECORD_LIMIT = 1 << 26  # characters; a record is parsed whole, so it has to fit into memory several times
ROWS = 64  # of a Parquet file at a time; rows may hold whole books


def read_records(source: Source, column: str | None, decoded: Iterable[str]) -> Iterator[str]:
    """Give the text of each record; `decoded` is the stream's text, for the formats that are text."""
    if source.format == "parquet":
        return _parquet(source, column)
    if source.format == "dataset":
        return _dataset(source, column)
    lines = _lines(decoded, source.name)
    return _jsonl(lines, source.name, column) if source.format == "jsonl" else _csv(lines, source, column)


def find_column(record: Mapping[str, Any], column: str | None, where: str) -> str:
    """Name the column that holds the text: the one asked for, one of the usual names, or the longest text."""
    if column is not None:
        if column not in record:
            raise DataError(f"{where}: no column {column}; found {', '.join(map(str, record)) or 'none'}")
        return column
    texts = {name: value for name, value in record.items() if isinstance(value, str)}
    usual = [name for name in TEXT_COLUMNS if name in texts]
    if not texts:
        raise DataError(f"{where}: no column with text; found {', '.join(map(str, record)) or 'none'}")
    return usual[0] if usual else max(texts, key=lambda name: len(texts[name]))


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


def _jsonl(lines: Iterable[str], name: str, column: str | None) -> Iterator[str]:
    found = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{name} line {number}"
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as problem:
            raise DataError(f"{where}: not a JSON record: {problem}") from None
        if isinstance(record, str):
            yield record
            continue
        if not isinstance(record, dict):
            raise DataError(f"{where}: a JSON {type(record).__name__}; each line has to be an object or a string")
        if found is None or found not in record:
            found = find_column(record, found or column, where)
        yield _text_of(record[found], found, where)


def _csv(lines: Iterable[str], source: Source, column: str | None) -> Iterator[str]:
    csv.field_size_limit(RECORD_LIMIT)
    rows = csv.reader(lines, delimiter="\t" if source.format == "tsv" else ",", strict=True)
    header: list[str] | None = None
    found: str | None = None
    try:
        for row in rows:
            if header is None:
                header = row
                continue
            if not row:
                continue
            where = f"{source.name} line {rows.line_num}"
            if len(row) != len(header):
                raise DataError(f"{where}: {len(row)} fields under a header of {len(header)}")
            record = dict(zip(header, row, strict=True))
            if found is None:
                found = find_column(record, column, where)
            yield record[found]
    except csv.Error as problem:
        raise DataError(f"{source.name} line {rows.line_num}: {problem}") from None


def _parquet(source: Source, column: str | None) -> Iterator[str]:
    if source.name == "-":
        raise DataError("standard input cannot be Parquet, which is read from its end; name a file")
    with ExitStack() as stack:
        with readable(source.name):
            from pyarrow import parquet

            file = parquet.ParquetFile(stack.enter_context(open_raw(source)))
            sample = next(file.iter_batches(batch_size=ROWS), None)
            if sample is None:
                return
            column = find_column(_longest(sample.to_pylist()), column, source.name)
            batches = file.iter_batches(batch_size=ROWS, columns=[column])
        while True:
            with readable(source.name):
                batch = next(batches, None)
            if batch is None:
                return
            for value in batch.column(0).to_pylist():
                yield _text_of(value, column, source.name)


def _longest(records: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Join records into one that holds the longest text of each column."""
    joined: dict[str, Any] = {}
    for record in records:
        for name, value in record.items():
            if name not in joined or (isinstance(value, str) and len(value) > len(joined[name] or "")):
                joined[name] = value
    return joined


def _dataset(source: Source, column: str | None) -> Iterator[str]:
    with readable(source.name):
        from datasets import load_dataset

        name, config, split = (*source.name.split(":"), "", "")[:3]
        records = iter(load_dataset(name, config or None, split=split or "train", streaming=True))
    found = None
    while True:
        with readable(source.name):
            record = next(records, None)
        if record is None:
            return
        found = found or find_column(record, column, source.name)
        yield _text_of(record[found], found, source.name)
