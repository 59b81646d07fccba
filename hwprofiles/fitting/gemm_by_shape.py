"""Tabulates the dense product by rows, for each matrix that was measured."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from hwprofiles.curves.gemm_by_shape import GemmByShapeCurve, MatrixTable
from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES, predicted_s
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.rising_table import rising_table
from hwprofiles.fitting.search import significant
from hwprofiles.provenance import Source

LEAST_ROWS = 2
"""Different numbers of rows that a matrix needs for a table."""


def fit_gemm_by_shape(points: Points, *, weights: str, source: Source) -> GemmByShapeCurve:
    """The tables made of the seen *points* and judged on the others."""
    seen, judges = points.seen, points.judges
    element_bytes = WEIGHT_ELEMENT_BYTES[weights]
    sizes = column(seen, "n") * column(seen, "k")
    curve = GemmByShapeCurve(
        form="gemm-by-shape",
        matrices=list(_tables(seen)),
        memory_bytes_per_s=significant((sizes * element_bytes / seconds(seen)).max()),
        flop_per_s=significant((2.0 * column(seen, "m") * sizes / seconds(seen)).max()),
        weight_element_bytes=element_bytes,
        residual=NOT_YET_JUDGED,
        domain={name: span(points.table[name]) for name in ("m", "n", "k")},
        source=source,
    )
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))


def _tables(seen: pd.DataFrame) -> Iterator[MatrixTable]:
    for n, k in seen[["n", "k"]].drop_duplicates().to_numpy(dtype=np.int64).tolist():
        mine = seen[(seen["n"] == n) & (seen["k"] == k)]
        rows, times = rising_table(column(mine, "m"), np.ones(len(mine)), seconds(mine), 0.0)
        if len(rows) >= LEAST_ROWS:
            yield MatrixTable(n, k, rows, times)
