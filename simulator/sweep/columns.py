"""Columns: the rows of a sweep as one table on disk, Parquet and CSV, every column of one type."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any, Final

from simulator.sweep.table import ERROR, METRIC_COLUMNS, ON_FRONT, STATUS, Row, Value

ROWS_AT_ONCE: Final = 10_000
"""In memory; also the rows of a group in the Parquet file."""
TRAILING: Final = (STATUS, ERROR)
LEAST_WHOLE: Final = -(2**63)
MOST_WHOLE: Final = 2**63 - 1

Rows = Callable[[], Iterable[Row]]
"""The rows in the order of the table, as often as they are asked for."""


def columns_of(rows: Iterable[Row], leading: Sequence[str]) -> dict[str, type]:
    """The type of every column, in order: *leading* ones, what runs say, status and error.

    A column of whole numbers and others is float, any other mixture is text.
    """
    kinds: dict[str, type | None] = dict.fromkeys(leading)
    for row in rows:
        for column, value in row.items():
            kinds[column] = _common(kinds.get(column), value)
    fronts = [column for column in kinds if column.startswith(ON_FRONT)]
    last = (*fronts, *TRAILING)
    ordered = [column for column in kinds if column not in last] + [c for c in last if c in kinds]
    return {column: kinds[column] or _kind_of_nothing(column) for column in ordered}


def write_table(parquet: Path, csv_file: Path, rows: Rows, columns: Mapping[str, type]) -> None:
    """Write both files of the table; raises OSError."""
    import pyarrow as pa  # noqa: PLC0415 (slow, and only for this)
    from pyarrow import csv  # noqa: PLC0415
    from pyarrow import parquet as pq  # noqa: PLC0415

    types = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    with ExitStack() as stack:
        writers: list[Any] = [
            stack.enter_context(pq.ParquetWriter(parquet, schema)),
            stack.enter_context(csv.CSVWriter(csv_file, schema)),
        ]
        for chunk in _chunks(rows()):
            values = {
                name: [_as(kind, row.get(name)) for row in chunk] for name, kind in columns.items()
            }
            batch = pa.RecordBatch.from_pydict(values, schema=schema)
            for writer in writers:
                writer.write_batch(batch)


def _chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    waiting = iter(rows)
    while chunk := list(islice(waiting, ROWS_AT_ONCE)):
        yield chunk


def _common(kind: type | None, value: Value) -> type | None:
    """The type of a column of *kind* that *value* joins."""
    if value is None:
        return kind
    own: type = type(value)
    if own is int and not LEAST_WHOLE <= value <= MOST_WHOLE:  # type: ignore[operator]
        own = str
    if kind in {None, own}:
        return own
    return float if {kind, own} == {int, float} else str


def _kind_of_nothing(column: str) -> type:
    """The type of a column without any value."""
    return float if column in METRIC_COLUMNS else str


def _as(kind: type, value: Value) -> Value:
    if value is None or type(value) is kind:
        return value
    return float(value) if kind is float else json.dumps(value)
