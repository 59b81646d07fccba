"""Damaged captured traces of every kind: a TraceError or a sound trace, never anything else."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces import tiny_iterations, tiny_trace
from tests.traces.hand_made import HandMade, parquet
from traces.captured_trace import CapturedTrace
from traces.reading import read_trace
from traces.records import names, records
from traces.trace_error import TraceError

TINY = {"blocks": tiny_trace.TINY, "iterations": tiny_iterations.TINY}
KINDS = st.sampled_from(sorted(TINY))
# Counts that may have several values.
RANGES = {
    ("blocks", "batch_forwards"): range(12, 17),
    ("iterations", "batch_forwards"): range(12, 17),
    ("iterations", "batch_prefill_forwards"): range(2, 5),
}


def test_every_kind_of_records_is_damaged_here() -> None:
    """A kind that is added is added to these tests too."""
    assert sorted(TINY) == names()


@contextmanager
def folder() -> Iterator[Path]:
    """A folder for one example."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def sound_or_refused(where: Path) -> CapturedTrace | None:
    """The trace, whose statistics can be told, or None where it is refused."""
    try:
        trace = read_trace(where)
    except TraceError as error:
        assert error.mistakes
        return None
    summary = records(trace.manifest.records).summary
    assert summary(trace)["requests"] == trace.requests.num_rows
    return trace


def drawn(draw: st.DataObject) -> tuple[HandMade, str]:
    """A trace made by hand, and the name of one of its tables."""
    tiny = TINY[draw.draw(KINDS, label="records")]
    return tiny, draw.draw(st.sampled_from(sorted(tiny.schemas)), label="table")


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


@settings(max_examples=50)
@given(draw=st.data())
def test_a_table_of_other_bytes_is_refused(draw: st.DataObject) -> None:
    """Any cut and any changed byte is found by its hash."""
    tiny, name = drawn(draw)
    with folder() as where:
        path = tiny.put(where) / f"{name}.parquet"
        path.write_bytes(damaged(path.read_bytes(), draw))
        with pytest.raises(TraceError, match=rf"{name}\.parquet: has the SHA-256"):
            read_trace(where)


@settings(max_examples=50)
@given(draw=st.data())
def test_damage_below_a_right_hash(draw: st.DataObject) -> None:
    """A file that was spoilt before it was hashed gives no traceback either."""
    tiny, name = drawn(draw)
    with folder() as where:
        sound_or_refused(tiny.put(where, {name: damaged(tiny.files[name], draw)}))


@settings(max_examples=50)
@given(kind=KINDS, draw=st.data())
def test_a_damaged_manifest(kind: str, draw: st.DataObject) -> None:
    """Whatever became of its text."""
    with folder() as where:
        path = TINY[kind].put(where) / "manifest.yaml"
        path.write_bytes(damaged(path.read_bytes(), draw))
        sound_or_refused(where)


@settings(max_examples=50)
@given(draw=st.data())
def test_columns_that_are_lost(draw: st.DataObject) -> None:
    """Each is named."""
    tiny, name = drawn(draw)
    columns = tiny.schemas[name].names
    most = len(columns) - 1
    lost = draw.draw(st.lists(st.sampled_from(columns), min_size=1, max_size=most, unique=True))
    with folder() as where:
        tiny.put(where, {name: parquet(tiny.tables[name].drop_columns(lost))})
        with pytest.raises(TraceError) as caught:
            read_trace(where)
        told = {mistake.place for mistake in caught.value.mistakes}
        assert {f"column {column}" for column in lost} <= told


@settings(max_examples=50)
@given(kind=KINDS, draw=st.data())
def test_counts_that_are_wrong(kind: str, draw: st.DataObject) -> None:
    """Whatever else is said; forwards of batches have a range, the others one value."""
    tiny = TINY[kind]
    counts = tiny.manifest["counts"]
    count = draw.draw(st.sampled_from(sorted(counts)), label="count")
    right = RANGES.get((kind, count), {counts[count]})
    wrong = draw.draw(st.integers(0, 10**9).filter(lambda value: value not in right))
    with folder() as where:
        tiny.put(where, **cast("Any", {f"counts__{count}": wrong}))
        with pytest.raises(TraceError, match=count):
            read_trace(where)


@settings(max_examples=50)
@given(draw=st.data())
def test_any_numbers_in_the_tables(draw: st.DataObject) -> None:
    """Cells of any value their type can hold: refused, or a trace that can be told of."""
    tiny, name = drawn(draw)
    rows = [dict(row) for row in tiny.rows[name]]
    for _ in range(draw.draw(st.integers(1, 3))):
        row = draw.draw(st.sampled_from(rows))
        field = draw.draw(st.sampled_from(list(tiny.schemas[name])))
        row[field.name] = draw.draw(cells(field.type, is_nullable=field.nullable))
    with folder() as where:
        sound_or_refused(tiny.put(where, {name: parquet(tiny.table_of(name, rows))}))


def cells(kind: pa.DataType, *, is_nullable: bool = False) -> st.SearchStrategy[Any]:
    """Values of a column's type, small ones and the ends of its range."""
    if pa.types.is_list(kind):
        return st.lists(cells(kind.value_type), max_size=4)
    if pa.types.is_boolean(kind):
        return st.sampled_from([True, False, *([None] if is_nullable else [])])
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        return st.integers(-2, 9) | st.sampled_from([-most, most - 1])
    return st.sampled_from(["prefill", "store", "denoise", "verify", "end", "", "\0"])
