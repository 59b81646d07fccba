"""Tabulates the dense product by its number of rows."""

from dataclasses import replace

import pandas as pd

from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES, predicted_s
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.rising_table import rising_table
from hwprofiles.fitting.search import Search, fit, significant
from hwprofiles.provenance import Source

ROUNDS = 8
"""Of fitting the launch to a table and a table to the launch; more change nothing."""


def fit_gemm_by_rows(
    points: Points, *, weights: str, launch: Search, source: Source
) -> GemmByRowsCurve:
    """The table made of the seen *points* and judged on the others."""
    seen, judges = points.seen, points.judges
    element_bytes = WEIGHT_ELEMENT_BYTES[weights]
    sizes = column(seen, "n") * column(seen, "k")
    rows, times = _table(seen, launch.start)
    curve = GemmByRowsCurve(
        form="gemm-by-rows",
        launch_s=launch.start,
        rows=rows,
        weight_s=times,
        memory_bytes_per_s=significant((sizes * element_bytes / seconds(seen)).max()),
        flop_per_s=significant((2.0 * column(seen, "m") * sizes / seconds(seen)).max()),
        weight_element_bytes=element_bytes,
        residual=NOT_YET_JUDGED,
        domain={name: span(points.table[name]) for name in ("m", "n", "k")},
        source=source,
    )
    for _ in range(ROUNDS):
        curve = fit(
            curve,
            {"launch_s": launch},
            predict=lambda trial: predicted_s(trial, seen),
            measured_s=seconds(seen),
        )
        rows, times = _table(seen, curve.launch_s)
        curve = replace(curve, rows=rows, weight_s=times)
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))


def _table(seen: pd.DataFrame, launch_s: float) -> tuple[list[float], list[float]]:
    """(rows, seconds at a weight)."""
    weights = column(seen, "n") * column(seen, "k")
    return rising_table(column(seen, "m"), weights, seconds(seen), launch_s)
