"""Elementwise kernels: bytes moved per second, by how many there are."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hwprofiles import HardwareProfile
from hwprofiles.curves import StreamingCurve
from hwprofiles.fitting.streaming import STREAM
from hwprofiles.quantities import FloatArray
from simulator.hardware_view.measured import MeasuredPoints
from simulator.hardware_view.panel import (
    Axis,
    Panel,
    Scales,
    Series,
    Sizes,
    between,
    level,
    series,
    span,
)
from simulator.hardware_view.shapes import typical, within

MOST_WIDTHS = 3
COMMON_ROW_BYTES = 16384.0
"""Drawn where none was measured: a norm of 4096 numbers in bf16, in and out."""


def streaming_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """One panel: kernels that stream, and some that give a row to one block."""
    curve = profile.kernels.elementwise
    rows = points.rows("elementwise")
    if curve.operations:
        streams = rows[rows["operation"].astype(str).str.endswith(f" {STREAM}")]
        curves = [_by_size(curve, streams, 0.0)]
        curves += [_of_operation(curve, rows, name) for name in curve.operations]
    else:
        curves = [_by_size(curve, rows, width) for width in (0.0, *_widths(curve, rows))]
    sizes = [x for each in curves for x in (*each.x, *each.marks.x)]
    peak = profile.peaks.memory_bytes_per_s
    yield Panel(
        kernel="elementwise",
        title="Elementwise kernels",
        note="timed one by one" if curve.operations else "rows: each is one block's work",
        x=SCALES.x,
        y=SCALES.y,
        series=curves,
        limits=[level(profile.peaks, peak, "B/s", sizes)],
    )


def _widths(curve: StreamingCurve, rows: pd.DataFrame) -> list[float]:
    """Bytes of the rows of row kernels to draw."""
    by_row = rows[rows["row_bytes"] > 0]
    if len(by_row):
        return [width for (width,) in typical(by_row, ("row_bytes",), MOST_WIDTHS)]
    widest = curve.domain["row_bytes"]
    return [within(COMMON_ROW_BYTES, widest)] if widest[1] > 0 else []


def _by_size(curve: StreamingCurve, rows: pd.DataFrame, row_bytes: float) -> Series:
    mine = rows[rows["row_bytes"] == row_bytes]
    low, high = curve.domain["bytes_moved"]
    moved = between(*span(mine, "bytes_moved", (max(low, row_bytes), max(high, 2.0 * row_bytes))))
    return series(
        f"rows of {row_bytes:.0f} B" if row_bytes else "streams",
        SCALES,
        {"bytes_moved": moved},
        curve.time(moved, row_bytes).seconds,
        p90=(curve.row_residual if row_bytes else curve.residual).p90,
        rows=mine,
    )


def _of_operation(curve: StreamingCurve, rows: pd.DataFrame, name: str) -> Series:
    """An operation that was timed on its own, over the sizes that it was timed at."""
    mine = rows[rows["operation"] == name]
    moved = between(*span(mine, "bytes_moved", curve.domain["bytes_moved"]))
    own = (curve.operations or {})[name]
    return series(
        name,
        SCALES,
        {"bytes_moved": moved},
        curve.time(moved, operation=name).seconds,
        p90=own.residual.p90,
        rows=mine,
    )


def _moved(sizes: Sizes) -> FloatArray:
    return sizes["bytes_moved"]


def _rate(sizes: Sizes, seconds: FloatArray) -> FloatArray:
    return np.asarray(sizes["bytes_moved"] / seconds)


SCALES = Scales(Axis("bytes moved", "B"), Axis("rate", "B/s"), _moved, _rate)
