"""Tabulates the dense product by its number of rows."""

from dataclasses import replace

import pandas as pd

from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES, predicted_s
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.rising_table import NOTHING_YET, fit_with_table, rising_table
from hwprofiles.fitting.search import Search, significant
from hwprofiles.provenance import Source


def fit_gemm_by_rows(
    points: Points, *, weights: str, launch: Search, source: Source
) -> GemmByRowsCurve:
    """The table made of the seen *points* and judged on the others."""
    seen, judges = points.seen, points.judges
    element_bytes = WEIGHT_ELEMENT_BYTES[weights]
    sizes = column(seen, "n") * column(seen, "k")
    curve = GemmByRowsCurve(
        form="gemm-by-rows",
        launch_s=launch.start,
        rows=NOTHING_YET,
        weight_s=NOTHING_YET,
        memory_bytes_per_s=significant((sizes * element_bytes / seconds(seen)).max()),
        flop_per_s=significant((2.0 * column(seen, "m") * sizes / seconds(seen)).max()),
        weight_element_bytes=element_bytes,
        residual=NOT_YET_JUDGED,
        domain={name: span(points.table[name]) for name in ("m", "n", "k")},
        source=source,
    )
    curve = fit_with_table(
        curve,
        {"launch_s": launch},
        predict=lambda trial: predicted_s(trial, seen),
        measured_s=seconds(seen),
        tabulated=lambda trial: _tabulated(trial, seen),
    )
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))


def _tabulated(curve: GemmByRowsCurve, seen: pd.DataFrame) -> GemmByRowsCurve:
    """*curve* with what is left of the times behind its launch as its table."""
    weights = column(seen, "n") * column(seen, "k")
    rows, times = rising_table(column(seen, "m"), weights, seconds(seen), curve.launch_s)
    return replace(curve, rows=rows, weight_s=times)
