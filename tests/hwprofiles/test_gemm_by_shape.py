"""Products tabulated matrix by matrix, and operations with a table: values by hand, and laws."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.curves.by_head_dim import SizeTable
from hwprofiles.curves.gemm_by_shape import GemmByShapeCurve, MatrixTable
from hwprofiles.curves.streaming import OperationCost, StreamingCurve
from hwprofiles.fitting.attention import predicted_s
from hwprofiles.fitting.attention_table import fit_attention_table
from hwprofiles.fitting.gemm_by_shape import fit_gemm_by_shape
from hwprofiles.fitting.points import Points
from hwprofiles.fitting.scale import Scale
from hwprofiles.provenance import Residual, Source

RESIDUAL = Residual(median=0.1, p90=0.2, points=9)
SOURCE = Source(kind="fitted", text="by hand")
CURVE = GemmByShapeCurve(
    form="gemm-by-shape",
    matrices=[
        MatrixTable(8, 4, rows=[1.0, 4.0], seconds=[1e-6, 4e-6]),
        MatrixTable(16, 8, rows=[1.0, 4.0], seconds=[2e-6, 8e-6]),
    ],
    memory_bytes_per_s=1e9,
    flop_per_s=1e9,
    weight_element_bytes=4.0,
    residual=RESIDUAL,
    domain={"m": (1.0, 4.0), "n": (8.0, 16.0), "k": (4.0, 8.0)},
    source=SOURCE,
)


def test_a_measured_matrix_is_read_off_its_table() -> None:
    """At a row of it its seconds, between them in the logarithms, beyond in proportion."""
    found = CURVE.time([1.0, 2.0, 4.0, 8.0, 0.0], 16.0, 8.0).seconds

    assert found.tolist() == pytest.approx([2e-6, 4e-6, 8e-6, 16e-6, 0.0])


def test_another_matrix_lies_between_those_of_fewer_and_more_entries() -> None:
    """64 entries are half way from 32 to 128 in the logarithms; beyond, in proportion."""
    assert float(CURVE.time(1.0, 8.0, 8.0).seconds) == pytest.approx(np.sqrt(2) * 1e-6)
    assert float(CURVE.time(1.0, 2.0, 2.0).seconds) == pytest.approx(1e-6)
    assert float(CURVE.time(1.0, 16.0, 16.0).seconds) == pytest.approx(4e-6)


@given(m=st.floats(0, 100), n=st.integers(1, 64), k=st.integers(1, 64), more=st.floats(1, 10))
def test_more_rows_never_take_less_and_no_part_more_than_the_whole(
    m: float, n: int, k: int, more: float
) -> None:
    """Time rises with the rows, and each of its limits lies within it."""
    found, longer = CURVE.time(m, n, k), CURVE.time(m + more, n, k)

    assert longer.seconds >= found.seconds * (1 - 1e-12)
    for part in (found.compute_s, found.memory_s, found.launch_s):
        assert part <= found.seconds * (1 + 1e-12)


def test_a_matrix_that_was_not_measured_is_named() -> None:
    """Outside is what no table has, though its sides lie within the range."""
    assert CURVE.outside(2.0, 8.0, 4.0) == []
    assert CURVE.outside(2.0, 8.0, 8.0) == ["a matrix of 8 x 8 was not measured"]


def test_the_fit_gives_back_what_was_measured() -> None:
    """Rising times become the tables as they are, and points between them have no error."""
    rows = pd.DataFrame(
        [
            {"m": m, "n": n, "k": k, "seconds": m * n * k * 1e-9}
            for n, k in ((8, 4), (16, 8))
            for m in (1, 2, 4, 8)
        ]
    )
    unseen = (rows["m"] == 2).to_numpy()
    made = fit_gemm_by_shape(Points(rows, unseen), weights="fp32", source=SOURCE)

    assert [(each.n, each.k, each.rows) for each in made.matrices] == [
        (8, 4, [1, 4, 8]),
        (16, 8, [1, 4, 8]),
    ]
    assert made.matrices[0].seconds == pytest.approx([32e-9, 128e-9, 256e-9])
    assert made.residual == Residual(median=0.0, p90=0.0, points=2)


def test_an_operation_with_a_table_is_read_off_it() -> None:
    """Its seconds by bytes, and nothing for nothing."""
    own = OperationCost(1e-6, 1e9, RESIDUAL, SizeTable([1e3, 1e6], [1e-5, 1e-3]))
    curve = StreamingCurve(
        form="streaming",
        launch_s=1e-6,
        memory_bytes_per_s=1e9,
        row_bytes_per_s=1e9,
        residual=RESIDUAL,
        row_residual=RESIDUAL,
        domain={"bytes_moved": (1e3, 1e6), "row_bytes": (0.0, 0.0)},
        source=SOURCE,
        operations={"fp32 norm": own},
    )
    found = curve.time([0.0, 1e3, 1e6], operation="fp32 norm")

    assert found.seconds.tolist() == pytest.approx([0.0, 1e-5, 1e-3])
    assert (found.launch_s + found.memory_s).tolist() == pytest.approx([0.0, 1e-5, 1e-3])
    closed = replace(curve, operations={"fp32 norm": replace(own, table=None)})
    assert float(closed.time(1e6, operation="fp32 norm").seconds) == pytest.approx(1e-6 + 1e-3)


def test_a_sequence_costs_its_own_beside_its_rows_and_keys() -> None:
    """By hand: two sequences of 4 rows on 10 keys, and one that is absent and costs nothing."""
    curve = AttentionTableCurve(
        form="attention-table",
        by="rows",
        launch_s=1e-5,
        row_s=1e-7,
        by_head_dim={8: SizeTable([1.0, 4.0], [1e-8, 4e-8])},
        memory_bytes_per_s=1e9,
        flop_per_s=1e9,
        residual=RESIDUAL,
        domain={},
        source=SOURCE,
        sequence_s=5e-6,
    )
    found = curve.time(
        [4, 4, 0], [10, 10, 0], query_heads=1, kv_heads=1, head_dim=8, kv_element_bytes=4.0
    )

    assert float(found.seconds) == pytest.approx(1e-5 + 2 * (5e-6 + 10 * 4e-8 + 4 * 1e-7))


def test_the_fit_finds_what_a_sequence_costs() -> None:
    """Times made of a launch, sequences, and keys by rows are told apart again."""
    sizes = [(b, q, p + q) for b in (1, 2, 4, 8) for q in (1, 4) for p in (10, 40, 160)]
    rows = pd.DataFrame(
        [
            {
                "sequences": b,
                "query_tokens": q,
                "kv_tokens": keys,
                "query_heads": 2,
                "kv_heads": 2,
                "head_dim": 8,
                "seconds": 2e-5 + b * (3e-5 + 2 * keys * 1e-7 * q),
            }
            for b, q, keys in sizes
        ]
    )
    scale = Scale(memory_bytes_per_s=1e9, flop_per_s=1e9, launch_s=1e-5)
    made = fit_attention_table(
        Points(rows, np.zeros(len(rows), dtype=np.bool_)),
        by="rows",
        element_bytes=4.0,
        search=scale.attention_sequences,
        source=SOURCE,
    )

    assert made.sequence_s == pytest.approx(3e-5, rel=0.1)
    assert predicted_s(made, rows, 4.0) == pytest.approx(rows["seconds"].to_numpy(), rel=0.05)
