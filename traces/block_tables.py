"""The tables of a block trace: their columns and types, and their columns as arrays.

Forwards of a request are numbered from 0, its prefill included. The lists of `blocks` have one
entry per local step: a forward that updated the block, told as it was before the update.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

KINDS: Final = ("prefill", "denoise", "store", "fused-store")
"""Kinds of forwards. A fused store denoises too, so it is counted among the denoising ones."""
FINISH_REASONS: Final = ("end", "limit")
LOCAL_LISTS: Final = ("masked", "ready", "revealed", "edited", "agreeing")
"""Of each local step: masks; of them those above the threshold; masks that became tokens; tokens
that were overwritten; tokens that the model would choose again."""
NUMBERS: Final = MappingProxyType(
    {"requests": ("request",), "blocks": ("request", "block"), "steps": ("request", "step")}
)
"""The columns by which the rows of a table are told apart and in order."""


def _given(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _integers(*names: str) -> list[pa.Field]:
    return [_given(name, pa.int32()) for name in names]


def _list(name: str, kind: pa.DataType) -> pa.Field:
    return _given(name, pa.list_(pa.field("element", kind, nullable=False)))


_WORD = pa.dictionary(pa.int32(), pa.string())

SCHEMAS: Final = MappingProxyType(
    {
        "requests": pa.schema(
            [
                *_integers("request", "problem", "batch", "row", "prompt_tokens", "output_tokens"),
                *_integers("prefill_forwards", "denoise_forwards", "store_forwards"),
                _given("finish_reason", _WORD),
                pa.field("correct", pa.bool_()),
                pa.field("valid", pa.bool_()),
                _list("output", pa.int32()),
            ]
        ),
        "blocks": pa.schema(
            [
                *_integers("request", "block", "admitted", "finished", "retired"),
                *(_list(name, pa.int16()) for name in LOCAL_LISTS),
            ]
        ),
        "steps": pa.schema(
            [
                *_integers("request", "step"),
                _given("kind", _WORD),
                *_integers("prefix_tokens", "query_tokens", "padded_tokens", "logit_rows"),
                *_integers("window_left", "window_right"),
                *_integers("revealed", "edited", "committed_tokens"),
            ]
        ),
    }
)
"""Columns and types by table."""


def block_table(name: str, columns: Mapping[str, Any]) -> pa.Table:
    """A table of *columns*, sequences by name, as the schema of *name* has them.

    Raises pyarrow's ArrowInvalid (a ValueError) or ArrowTypeError for what does not fit, KeyError
    for a column that is missing.
    """
    schema = SCHEMAS[name]
    return in_schema(name, pa.table({field.name: columns[field.name] for field in schema}))


def in_schema(name: str, table: pa.Table) -> pa.Table:
    """*table* with the types of *name* and its rows in order; raises ValueError where it cannot.

    Words are numbered as they come up, whatever numbers they had.
    """
    schema = SCHEMAS[name]
    spelled = [pa.field(f.name, pa.string(), f.nullable) if f.type == _WORD else f for f in schema]
    order = [(column, "ascending") for column in NUMBERS[name]]
    return table.cast(pa.schema(spelled)).sort_by(order).combine_chunks().cast(schema)


def column_mistakes(name: str, table: pa.Table) -> Iterator[tuple[str, str]]:
    """(place, rule) of every column that the table of *name* lacks, has beyond it, or has wrong."""
    schema, there = SCHEMAS[name], table.schema.names
    for column in dict.fromkeys(there):
        if there.count(column) > 1:
            yield f"column {column}", "is there more than once"
        elif column not in schema.names:
            yield f"column {column}", f"is unknown; known: {', '.join(schema.names)}"
    for field in schema:
        if field.name not in there:
            yield f"column {field.name}", "is missing"
        elif there.count(field.name) == 1:
            yield from _type_mistakes(field, table[field.name])


def _type_mistakes(field: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[str, str]]:
    place = f"column {field.name}"
    if not column.type.equals(field.type):
        yield place, f"has the type {field.type}, got {column.type}"
    elif not field.nullable and column.null_count:
        yield place, f"has a value in every row, got {column.null_count} without"


def numbers(table: pa.Table, column: str) -> IntArray:
    """A column of whole numbers, [rows]."""
    return np.asarray(table[column].to_numpy(), dtype=np.int64)


def entries(table: pa.Table, column: str) -> IntArray:
    """The entries of a column of lists, one list behind the other, [sum of lengths]."""
    return np.asarray(pc.list_flatten(table[column]).to_numpy(), dtype=np.int64)


def lengths(table: pa.Table, column: str) -> IntArray:
    """The length of each list of a column, [rows]."""
    return np.asarray(pc.list_value_length(table[column]).to_numpy(), dtype=np.int64)


def among(table: pa.Table, column: str, *words: str) -> BoolArray:
    """Where a column of words has one of *words*, [rows]."""
    found = pc.is_in(table[column].cast(pa.string()), value_set=pa.array(words, pa.string()))
    return np.asarray(found.to_numpy(), dtype=np.bool_)
