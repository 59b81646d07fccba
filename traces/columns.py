"""The columns of a trace's tables: how schemas write them, and their values as arrays."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

IntArray = npt.NDArray[np.int64]
BoolArray = npt.NDArray[np.bool_]

FINISH_REASONS: Final = ("end", "limit")
WORD: Final = pa.dictionary(pa.int32(), pa.string())
"""The type of a column of few different words."""


def given(name: str, kind: pa.DataType) -> pa.Field:
    """A column that has a value in every row."""
    return pa.field(name, kind, nullable=False)


def integers(*names: str) -> list[pa.Field]:
    """Columns of whole numbers."""
    return [given(name, pa.int32()) for name in names]


def lists(name: str, kind: pa.DataType) -> pa.Field:
    """A column of lists without gaps."""
    return given(name, pa.list_(pa.field("element", kind, nullable=False)))


def requests_schema(*counted: str) -> pa.Schema:
    """The table `requests`, which every trace has, with what its kind counts of a request."""
    return pa.schema(
        [
            *integers("request", "problem", "batch", "row", "prompt_tokens", "output_tokens"),
            *integers(*counted),
            given("finish_reason", WORD),
            pa.field("correct", pa.bool_()),
            pa.field("valid", pa.bool_()),
            lists("output", pa.int32()),
        ]
    )


def numbers(table: pa.Table, column: str) -> IntArray:
    """A column of whole numbers, [rows]."""
    return np.asarray(table[column].to_numpy(), dtype=np.int64)


def flags(table: pa.Table, column: str) -> BoolArray:
    """A column of yes and no without gaps, [rows]."""
    return np.asarray(table[column].to_numpy(), dtype=np.bool_)


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
