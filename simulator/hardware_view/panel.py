"""A panel of the hardware figure: curves with points on them, and limits above or below."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hwprofiles.profile import Peaks
from hwprofiles.quantities import FloatArray

Sizes = Mapping[str, FloatArray]
"""What a curve takes, by name; arrays of one length."""

CURVE_POINTS = 121
MOST_ERROR = 0.9
"""An error of one and more would leave a band without an upper end."""


@dataclass(frozen=True)
class Axis:
    """What an axis shows, in an SI unit; `tokens` and `FLOP/B` are units too."""

    name: str
    unit: str


@dataclass(frozen=True)
class Scales:
    """Both axes of a panel, and what a kernel of some sizes and seconds has on them."""

    x: Axis
    y: Axis
    x_of: Callable[[Sizes], FloatArray]
    y_of: Callable[[Sizes, FloatArray], FloatArray]


@dataclass(frozen=True)
class Marks:
    """Measured points, and which of them no fit has seen; lists of one length."""

    x: list[float]
    y: list[float]
    held_out: list[bool]


@dataclass(frozen=True)
class Series:
    """One curve, the band of its 90th-percentile error, and the points on it."""

    label: str
    x: list[float]
    y: list[float]
    low: list[float]
    high: list[float]
    marks: Marks
    is_extrapolated: bool = False
    """Whether the curve is outside the range it was fitted on."""


@dataclass(frozen=True)
class Limit:
    """A line that the peaks of the device draw; *rates* are (amount per second, unit)."""

    words: str
    rates: list[tuple[float, str]]
    x: list[float]
    y: list[float]


@dataclass(frozen=True)
class Panel:
    """Everything that one pair of axes shows."""

    kernel: str
    title: str
    note: str
    x: Axis
    y: Axis
    series: list[Series]
    limits: list[Limit]


def series(  # noqa: PLR0913 (what a curve looks like)
    label: str,
    scales: Scales,
    sizes: Sizes,
    seconds: FloatArray,
    *,
    p90: float,
    rows: pd.DataFrame,
    is_extrapolated: bool = False,
) -> Series:
    """The curve that takes *seconds* for *sizes*, with the points *rows* on it.

    Of a curve with an error e, a kernel takes seconds / (1 + e) to seconds / (1 - e).
    """
    error = min(p90, MOST_ERROR)
    ends = [scales.y_of(sizes, seconds / (1.0 + sign * error)) for sign in (1.0, -1.0)]
    return Series(
        label=label,
        x=scales.x_of(sizes).tolist(),
        y=scales.y_of(sizes, seconds).tolist(),
        low=np.minimum(*ends).tolist(),
        high=np.maximum(*ends).tolist(),
        marks=_marks(scales, rows),
        is_extrapolated=is_extrapolated,
    )


def _marks(scales: Scales, rows: pd.DataFrame) -> Marks:
    measured = rows.drop(columns="held_out")
    sizes = {
        str(name): measured[name].to_numpy(dtype=np.float64)
        for name in measured
        if name != "operation"
    }
    return Marks(
        x=scales.x_of(sizes).tolist(),
        y=scales.y_of(sizes, sizes["seconds"]).tolist(),
        held_out=rows["held_out"].tolist(),
    )


def between(low: float, high: float) -> FloatArray:
    """Sizes from *low* to *high*, evenly spaced in their logarithms, both ends exact."""
    sizes: FloatArray = np.geomspace(low, high, CURVE_POINTS)
    sizes[[0, -1]] = low, high
    return sizes


def span(rows: pd.DataFrame, name: str, otherwise: tuple[float, float]) -> tuple[float, float]:
    """From the least to the greatest size of *rows*; *otherwise* where they are not two."""
    least, most = float(rows[name].min()), float(rows[name].max())
    # Both are NaN where there are no rows.
    return (least, most) if least < most else (max(otherwise[0], 1.0), otherwise[1])


def origin(peaks: Peaks) -> str:
    """Where the peaks of a device are from, in two words."""
    return {"datasheet": "data sheet", "measured": "most measured", "fitted": "fitted"}[
        peaks.source.kind
    ]


def level(peaks: Peaks, rate: float, unit: str, x: list[float]) -> Limit:
    """A limit that is the same for all sizes from the least to the greatest *x*."""
    return Limit(origin(peaks), [(rate, unit)], [min(x), max(x)], [rate, rate])
