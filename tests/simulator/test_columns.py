"""Records kept as arrays against the same records in a list."""

from dataclasses import astuple, dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.columns import CHUNK_ROWS, Columns


@dataclass(frozen=True)
class Item:
    """One field of each kind."""

    count: int
    weight: float
    is_good: bool
    name: str


WHOLE = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 300)
ITEMS = st.builds(Item, WHOLE, st.floats(allow_nan=False), st.booleans(), st.text(max_size=5))


@given(st.lists(ITEMS, max_size=12), st.integers(-13, 13), st.slices(12))
def test_it_reads_as_the_list_of_its_records(items: list[Item], index: int, part: slice) -> None:
    """Length, order, equality, places and slices are those of a list, with Python's own types."""
    columns = Columns(Item, items)

    assert list(columns) == items == columns
    assert len(columns) == len(items)
    assert columns[part] == items[part]
    assert [list(map(type, astuple(item))) for item in columns] == [
        list(map(type, astuple(item))) for item in items
    ]
    if -len(items) <= index < len(items):
        assert columns[index] == items[index]
    else:
        with pytest.raises(IndexError, match="records"):
            columns[index]


def test_chunks_join_in_order() -> None:
    """Records over several chunks, appended and extended by turns, come back as they went in."""
    items = [Item(3 * i - 50, i / 7, i % 3 == 0, str(i)) for i in range(2 * CHUNK_ROWS + 10)]
    columns = Columns(Item, items[:CHUNK_ROWS])
    columns.append(items[CHUNK_ROWS])
    rest = items[CHUNK_ROWS + 1 :]
    columns.extend(
        {
            "count": np.array([item.count for item in rest], dtype=float),
            "weight": np.array([item.weight for item in rest]),
            "is_good": np.array([item.is_good for item in rest], dtype=float),
            "name": np.array([item.name for item in rest], dtype=object),
        }
    )
    columns.append(Item(1, 1.0, is_good=True, name="last"))

    assert columns[:-1] == items
    assert columns[-1].name == "last"
    assert columns.column("count").tolist() == [*(item.count for item in items), 1]
    assert columns.column("count").dtype == np.int64


def test_columns_differ_where_a_record_does() -> None:
    """One other value, or one record more, is not equal; neither is something else."""
    item = Item(1, 2.0, is_good=True, name="a")
    columns = Columns(Item, [item])

    assert columns != Columns(Item, [Item(1, 2.5, is_good=True, name="a")])
    assert columns != Columns(Item, [item, item])
    assert columns != 3


def test_small_numbers_take_small_places() -> None:
    """A chunk of whole numbers lies in as many bytes as its largest needs."""
    columns = Columns(Item, [Item(i % 200, 0.0, is_good=True, name="") for i in range(CHUNK_ROWS)])
    columns.extend(
        {
            "count": np.full(4, 70_000),
            "weight": np.zeros(4),
            "is_good": np.ones(4),
            "name": np.full(4, "", dtype=object),
        }
    )

    assert [chunk["count"].itemsize for chunk in columns.chunks()] == [1, 4]


def test_other_fields_are_no_columns() -> None:
    """A field that is not a number, a truth or a text is refused."""

    @dataclass(frozen=True)
    class Odd:
        parts: tuple[int, ...]

    with pytest.raises(KeyError):
        Columns(Odd)
