"""The all-reduce: time by message, a curve per number of GPUs."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hwprofiles import HardwareProfile
from hwprofiles.curves import AllReduceCurve
from hwprofiles.quantities import FloatArray
from simulator.hardware_view.measured import MeasuredPoints
from simulator.hardware_view.panel import Axis, Panel, Scales, Series, Sizes, series


def all_reduce_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """One panel, where GPUs were measured together."""
    curve = profile.kernels.all_reduce
    if curve is None:
        return
    rows = points.rows("all_reduce")
    yield Panel(
        kernel="all_reduce",
        title="All-reduce",
        note="a table by message for each number of GPUs",
        x=SCALES.x,
        y=SCALES.y,
        series=[_by_message(curve, ranks, rows) for ranks in sorted(curve.by_ranks)],
        limits=[],
    )


def _by_message(curve: AllReduceCurve, ranks: int, rows: pd.DataFrame) -> Series:
    sizes = np.asarray(curve.by_ranks[ranks].message_bytes)
    return series(
        f"{ranks} GPUs",
        SCALES,
        {"message_bytes": sizes},
        curve.time(sizes, ranks).seconds,
        p90=curve.residual_by_ranks.get(ranks, curve.residual).p90,
        rows=rows[rows["ranks"] == ranks],
    )


def _message(sizes: Sizes) -> FloatArray:
    return sizes["message_bytes"]


def _time(sizes: Sizes, seconds: FloatArray) -> FloatArray:  # noqa: ARG001 (as other scales)
    return seconds


SCALES = Scales(Axis("bytes of the message", "B"), Axis("time", "s"), _message, _time)
