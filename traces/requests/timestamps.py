"""Timestamps of a column: seconds, milliseconds or ISO date-times, exact until they are re-based.

An epoch of 1.7e9 seconds in a float is off by 1e-7 s, which is what the Azure traces resolve; so
date-times stay whole nanoseconds until the first one is taken off.
"""

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from traces.requests.text_column import TextColumn

TICKS_PER_S = {"s": 1.0, "ms": 1e3, "iso": 1e9}
"""Units that a timestamp may have, and how many ticks of each are a second."""

EARLIEST, LATEST = pd.Timestamp("1678-01-01", tz="UTC"), pd.Timestamp("2262-01-01", tz="UTC")

Ticks = npt.NDArray[Any]
"""[rows], int64 nanoseconds since 1970 for iso, else float64."""

_DATE_TIME = re.compile(r"\s*\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?\s*(Z|[+-]\d\d.*)?")
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*")


def is_date_time(value: object) -> bool:
    """Whether *value* is written as an ISO date-time."""
    return isinstance(value, str) and _DATE_TIME.fullmatch(value) is not None


def ticks(column: TextColumn, unit: str) -> Ticks:
    """The column in ticks of *unit*; raises RequestFileError naming the first that is none.

    Date-times without a time zone are UTC.
    """
    return _date_times(column) if unit == "iso" else _numbers(column)


def _date_times(column: TextColumn) -> Ticks:
    """All of a block at once where each has a time zone or none has; one by one otherwise."""
    for kind in (pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            moments = pa.array(column.cells, pa.string()).cast(kind)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            continue
        if moments.null_count == 0:
            found: Ticks = moments.cast(pa.int64()).to_numpy(zero_copy_only=False)
            return found
    return _mixed_date_times(column)


def _mixed_date_times(column: TextColumn) -> Ticks:
    shapes = list(map(is_date_time, column.cells))
    if not all(shapes):
        rule = "must be an ISO date-time, such as 2023-11-16 18:15:46.68"
        raise column.wrong(shapes.index(False), rule)
    # Mixed precision and time zones are one call; what no calendar has comes back as NaT.
    moments = pd.to_datetime(
        pd.Series(list(map(str, column.cells)), dtype="string"),
        format="ISO8601",
        utc=True,
        errors="coerce",
    )
    # Whole nanoseconds since 1970 reach from 1677 to 2262.
    within = moments.between(EARLIEST, LATEST)
    wrong = np.flatnonzero(~within)
    if len(wrong):
        raise column.wrong(int(wrong[0]), "must be a date-time that there is, of 1678 to 2261")
    return moments.dt.as_unit("ns").astype("int64").to_numpy()


def _numbers(column: TextColumn) -> Ticks:
    try:
        texts = pa.array(column.cells, pa.string())
        if texts.null_count == 0:
            found: Ticks = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
            if np.isfinite(found).all():
                return found
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        pass
    return np.array([_number(column, row) for row in range(len(column.cells))])


def _number(column: TextColumn, row: int) -> float:
    text = column.cells[row]
    if isinstance(text, str) and _NUMBER.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    raise column.wrong(row, "must be a finite number")
