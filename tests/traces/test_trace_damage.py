"""Damaged block traces: a TraceError or a sound trace, never anything else."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.tiny_trace import FIELDS, FILES, ROWS, TABLES, parquet, put, table_of
from traces.block_tables import SCHEMAS
from traces.block_trace import BlockTrace, read_block_trace
from traces.statistics import summary
from traces.trace_error import TraceError

NAMES = st.sampled_from(sorted(SCHEMAS))


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def sound_or_refused(where: Path) -> BlockTrace | None:
    """The trace, whose statistics can be told, or None where it is refused."""
    try:
        trace = read_block_trace(where)
    except TraceError as error:
        assert error.mistakes
        return None
    assert summary(trace)["requests"] == trace.requests.num_rows
    return trace


def damaged(content: bytes, draw: st.DataObject) -> bytes:
    """*content* cut, or with some bytes changed."""
    if draw.draw(st.booleans(), label="cut"):
        return content[: draw.draw(st.integers(0, len(content) - 1))]
    made = bytearray(content)
    places = st.integers(0, len(content) - 1)
    for place, mask in draw.draw(
        st.lists(
            st.tuples(places, st.integers(1, 255)), min_size=1, max_size=8, unique_by=lambda x: x[0]
        )
    ):
        made[place] ^= mask
    return bytes(made)


@given(name=NAMES, draw=st.data())
def test_a_table_of_other_bytes_is_refused(name: str, draw: st.DataObject) -> None:
    """Any cut and any changed byte is found by its hash."""
    with folder() as where:
        path = put(where) / f"{name}.parquet"
        path.write_bytes(damaged(path.read_bytes(), draw))
        with pytest.raises(TraceError, match=rf"{name}\.parquet: has the SHA-256"):
            read_block_trace(where)


@settings(max_examples=50)
@given(name=NAMES, draw=st.data())
def test_damage_below_a_right_hash(name: str, draw: st.DataObject) -> None:
    """A file that was spoilt before it was hashed gives no traceback either."""
    with folder() as where:
        sound_or_refused(put(where, {name: damaged(FILES[name], draw)}))


@settings(max_examples=50)
@given(draw=st.data())
def test_a_damaged_manifest(draw: st.DataObject) -> None:
    """Whatever became of its text."""
    with folder() as where:
        put(where)
        path = where / "manifest.yaml"
        path.write_bytes(damaged(path.read_bytes(), draw))
        sound_or_refused(where)


@given(name=NAMES, draw=st.data())
def test_columns_that_are_lost(name: str, draw: st.DataObject) -> None:
    """Each is named."""
    columns = SCHEMAS[name].names
    most = len(columns) - 1
    lost = draw.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=most, unique=True))
    with folder() as where:
        put(where, {name: parquet(TABLES[name].drop_columns(lost))})
        with pytest.raises(TraceError) as caught:
            read_block_trace(where)
        told = {mistake.place for mistake in caught.value.mistakes}
        assert {f"column {column}" for column in lost} <= told


@given(count=st.sampled_from(sorted(FIELDS["counts"])), draw=st.data())
def test_counts_that_are_wrong(count: str, draw: st.DataObject) -> None:
    """Whatever else is said; forwards of batches have a range, the others one value."""
    right = {FIELDS["counts"][count]} | (set(range(12, 17)) if count == "batch_forwards" else set())
    wrong = draw.draw(st.integers(0, 10**9).filter(lambda value: value not in right))
    with folder() as where:
        put(where, **cast("Any", {f"counts__{count}": wrong}))
        with pytest.raises(TraceError, match=count):
            read_block_trace(where)


@settings(max_examples=50)
@given(name=NAMES, draw=st.data())
def test_any_numbers_in_the_tables(name: str, draw: st.DataObject) -> None:
    """Cells of any value their type can hold: refused, or a trace that can be told of."""
    rows = [dict(row) for row in ROWS[name]]
    for _ in range(draw.draw(st.integers(1, 3))):
        row = draw.draw(st.sampled_from(rows))
        field = draw.draw(st.sampled_from(list(SCHEMAS[name])))
        row[field.name] = draw.draw(cells(field.type))
    with folder() as where:
        sound_or_refused(put(where, {name: parquet(table_of(name, rows))}))


def cells(kind: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a column's type, small ones and the ends of its range."""
    if pa.types.is_list(kind):
        return st.lists(cells(kind.value_type), max_size=4)
    if pa.types.is_boolean(kind):
        return st.sampled_from([True, False, None])
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return st.integers(-2, 9) | st.sampled_from([-most, most - 1])
    return st.sampled_from(["prefill", "store", "denoise", "end", "", "\0"])
