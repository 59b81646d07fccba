"""Fits elementwise kernels: those that stream, and those that give each row to one block."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from hwprofiles.curves.streaming import StreamingCurve
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.search import Search, fit, starts
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray


def predicted_s(curve: StreamingCurve, rows: pd.DataFrame) -> FloatArray:
    """What *curve* says for each row of bytes_moved and row_bytes."""
    fixed = curve.launch_s + column(rows, "row_bytes") / curve.row_bytes_per_s
    seconds: FloatArray = fixed + column(rows, "bytes_moved") / curve.memory_bytes_per_s
    return seconds


def fit_streaming(
    points: Points, *, search: Mapping[str, Search], row_bytes_per_s: float, source: Source
) -> StreamingCurve:
    """The curve of kernels without a row term, fitted to the seen *points*."""
    template = StreamingCurve(
        form="streaming",
        **starts(search),
        row_bytes_per_s=row_bytes_per_s,
        residual=NOT_YET_JUDGED,
        row_residual=NOT_YET_JUDGED,
        domain={"bytes_moved": span(points.table["bytes_moved"]), "row_bytes": (0.0, 0.0)},
        source=source,
    )
    seen, judges = points.seen, points.judges
    curve = fit(
        template, search, predict=lambda trial: predicted_s(trial, seen), measured_s=seconds(seen)
    )
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))


def with_rows(
    curve: StreamingCurve, points: Points, *, search: Mapping[str, Search]
) -> StreamingCurve:
    """*curve* with the bandwidth of one row fitted to kernels that give a row to one block."""
    seen, judges = points.seen, points.judges
    made = fit(
        curve, search, predict=lambda trial: predicted_s(trial, seen), measured_s=seconds(seen)
    )
    return replace(
        made,
        row_residual=residual(predicted_s(made, judges), seconds(judges)),
        domain=made.domain | {"row_bytes": (0.0, float(points.table["row_bytes"].max()))},
    )
