"""Tables held to a schema: brought into it, or told how they differ from it."""

from collections.abc import Iterator

import pyarrow as pa

from traces.columns import WORD


def number_columns(name: str) -> tuple[str, ...]:
    """The columns by which the rows of a table are told apart and in order.

    A table called things has one row per `request` and `thing`.
    """
    return tuple(dict.fromkeys(("request", name.removesuffix("s"))))


def in_schema(name: str, table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table called *name* with the types of *schema* and its rows in order.

    Words are numbered as they come up, whatever numbers they had. Raises KeyError for a column
    that is missing, pyarrow's ArrowInvalid (a ValueError) or ArrowTypeError for what does not fit.
    """
    spelled = [pa.field(f.name, pa.string(), f.nullable) if f.type == WORD else f for f in schema]
    order = [(column, "ascending") for column in number_columns(name)]
    chosen = table.select(schema.names).cast(pa.schema(spelled))
    return chosen.sort_by(order).combine_chunks().cast(schema)


def column_mistakes(table: pa.Table, schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """(place, rule) of every column that *table* lacks, has beyond *schema*, or has wrong."""
    there = table.schema.names
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
