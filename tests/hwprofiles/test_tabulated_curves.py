"""Tabulated curves and operations timed one by one: values by hand, and what always holds."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.curves.by_head_dim import SizeTable, at_head_dim
from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.curves.streaming import OperationCost, StreamingCurve
from hwprofiles.provenance import Residual, Source

RESIDUAL = Residual(median=0.1, p90=0.2, points=9)
SOURCE = Source(kind="fitted", text="by hand")
DOMAIN = {
    "rows_per_kv_head": (1.0, 64.0),
    "kv_tokens": (1.0, 1000.0),
    "kv_bytes": (1.0, 1e6),
    "sequences": (1.0, 8.0),
    "head_dim": (32.0, 64.0),
}
BY_ROWS = AttentionTableCurve(
    form="attention-table",
    by="rows",
    launch_s=1e-5,
    row_s=1e-7,
    by_head_dim={
        32: SizeTable(sizes=[1.0, 4.0, 16.0], seconds=[1e-8, 1e-8, 4e-8]),
        64: SizeTable(sizes=[1.0, 16.0], seconds=[2e-8, 8e-8]),
    },
    memory_bytes_per_s=1e10,
    flop_per_s=1e12,
    residual=RESIDUAL,
    domain=DOMAIN,
    source=SOURCE,
)
BY_KEYS = replace(
    BY_ROWS, by="keys", by_head_dim={32: SizeTable(sizes=[10.0, 1000.0], seconds=[1e-6, 1e-4])}
)
SHAPE: dict[str, Any] = {
    "query_heads": 8.0,
    "kv_heads": 2.0,
    "head_dim": 32,
    "kv_element_bytes": 4.0,
}


def test_rows_by_hand() -> None:
    """Two sequences of 100 and 300 keys, 4 queries on 4 heads per KV head: 16 rows at 40 ns."""
    found = BY_ROWS.time([4, 4], [100, 300], **SHAPE)

    assert float(found.seconds) == pytest.approx(1e-5 + 2 * 400 * 4e-8 + 8 * 8 * 1e-7)
    moved = 2 * 2 * 32 * 4 * 400 + 2 * 8 * 32 * 4 * 8
    assert float(found.memory_s) == pytest.approx(moved / 1e10)
    assert float(found.compute_s) == pytest.approx(4 * 32 * 8 * 4 * 400 / 1e12)
    assert float(found.launch_s) == 1e-5


def test_keys_by_hand() -> None:
    """A prompt of 100 tokens sees half of its keys; at 100 keys the table has 10 us a query."""
    found = BY_KEYS.time([100], [100], **SHAPE)

    share = 1 - 99 / 200
    assert float(found.seconds) == pytest.approx(1e-5 + 8 * 100 * (share * 1e-5 + 1e-7))
    assert float(found.compute_s) == pytest.approx(4 * 32 * 8 * 100 * 100 * share / 1e12)


def test_a_chunk_costs_what_the_whole_adds() -> None:
    """The second half of a prompt behind the first: the keys it sees, at the pace of them all."""
    chunk = BY_KEYS.time([50], [100], **SHAPE)

    assert float(chunk.seconds) == pytest.approx(1e-5 + 8 * 50 * ((1 - 49 / 200) * 1e-5 + 1e-7))


def test_head_sizes_between_and_beyond() -> None:
    """Between two tables the geometric mean of both; beyond them in proportion to the head."""
    tables = BY_ROWS.by_head_dim
    one = np.array([1.0])
    between = int(np.sqrt(32 * 64))

    assert at_head_dim(tables, 32, one)[0] == pytest.approx(1e-8)
    assert at_head_dim(tables, 128, one)[0] == pytest.approx(4e-8)
    assert at_head_dim(tables, 16, one)[0] == pytest.approx(5e-9)
    assert at_head_dim(tables, between, one)[0] == pytest.approx(np.sqrt(2) * 1e-8, rel=0.02)


@pytest.mark.parametrize("curve", [BY_ROWS, BY_KEYS], ids=["rows", "keys"])
@given(
    queries=st.lists(st.integers(0, 64), min_size=1, max_size=4),
    prefix=st.integers(0, 2000),
    more=st.integers(1, 500),
)
def test_more_never_takes_less(
    curve: AttentionTableCurve, queries: list[int], prefix: int, more: int
) -> None:
    """More keys or another sequence never shorten a batch, and no part exceeds the whole."""
    keys = [prefix + count for count in queries]
    found = curve.time(queries, keys, **SHAPE)
    longer = curve.time(queries, [count + more for count in keys], **SHAPE)
    fuller = curve.time([*queries, 4], [*keys, 40], **SHAPE)

    assert longer.seconds >= found.seconds * (1 - 1e-12)
    assert fuller.seconds >= found.seconds * (1 - 1e-12)
    for part in (found.compute_s, found.memory_s, found.launch_s):
        assert part <= found.seconds * (1 + 1e-12)


@pytest.mark.parametrize("curve", [BY_ROWS, BY_KEYS], ids=["rows", "keys"])
def test_nobody_asks(curve: AttentionTableCurve) -> None:
    """A batch of absent sequences costs nothing."""
    assert float(curve.time([0, 0], [100, 0], **SHAPE).seconds) == 0


def test_what_lies_outside_is_told() -> None:
    """Each size beyond its range, and none of those within."""
    told = BY_ROWS.outside([4], [5000], **SHAPE | {"head_dim": 128})

    assert [sentence.split(" = ")[0] for sentence in told] == ["kv_tokens", "kv_bytes", "head_dim"]


@pytest.mark.parametrize(
    ("sizes", "seconds", "rule"),
    [
        ([1.0], [1.0], "at least two"),
        ([1.0, 2.0], [1.0], "got 2 and 1"),
        ([2.0, 1.0], [1.0, 2.0], "2 before 1"),
        ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0], r"from 2 to 3 \(3 s to 2 s\)"),
    ],
)
def test_tables_that_cannot_be(sizes: list[float], seconds: list[float], rule: str) -> None:
    """Too short, of two lengths, disordered, or falling; the rows are named."""
    with pytest.raises(ValueError, match=rule):
        SizeTable(sizes=sizes, seconds=seconds)


def test_no_head_size_is_refused() -> None:
    """A curve without tables says nothing."""
    with pytest.raises(ValueError, match="at least one head size"):
        replace(BY_ROWS, by_head_dim={})


DENSE = GemmByRowsCurve(
    form="gemm-by-rows",
    launch_s=1e-5,
    rows=[1.0, 4.0, 64.0],
    weight_s=[1e-10, 4e-10, 4e-9],
    memory_bytes_per_s=4e10,
    flop_per_s=1e12,
    weight_element_bytes=4.0,
    residual=RESIDUAL,
    domain={"m": (1.0, 64.0), "n": (1.0, 1e4), "k": (1.0, 1e4)},
    source=SOURCE,
)


def test_products_by_hand() -> None:
    """A million weights: 0.1 ns each for one row, 0.2 ns for two, 8 ns for twice the last row."""
    found = DENSE.time(np.array([0.0, 1.0, 2.0, 128.0]), 1000, 1000).seconds

    assert found == pytest.approx([0.0, 1.1e-4, 2.1e-4, 8.01e-3])


def test_the_parts_of_a_product() -> None:
    """Weights are read at the fastest rate seen, and no part is larger than the time."""
    found = DENSE.time(np.array([1.0, 64.0]), 1000, 1000)

    assert found.memory_s == pytest.approx([1e-4, 1e-4])
    assert found.compute_s == pytest.approx([2e-6, 1.28e-4])


def test_operations_timed_on_their_own() -> None:
    """An operation of that name has its own launch and rate; any other streams."""
    curve = StreamingCurve(
        form="streaming",
        launch_s=1e-6,
        memory_bytes_per_s=1e10,
        row_bytes_per_s=1e9,
        residual=RESIDUAL,
        row_residual=RESIDUAL,
        domain={"bytes_moved": (1.0, 1e9), "row_bytes": (0.0, 1e5)},
        source=SOURCE,
        operations={"fp32 norm": OperationCost(5e-5, 2e9, RESIDUAL)},
    )

    assert float(curve.time(1e6, 1e3, "fp32 norm").seconds) == pytest.approx(5e-5 + 5e-4)
    assert float(curve.time(1e6, 1e3, "bf16 norm").seconds) == pytest.approx(2e-6 + 1e-4)
    assert float(curve.time(0.0, 1e3, "fp32 norm").seconds) == 0
