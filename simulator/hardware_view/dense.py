"""Dense products: under their roofline, and how fast a lone row reads the weights."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hwprofiles import HardwareProfile
from hwprofiles.curves import GemmByRowsCurve, GemmByShapeCurve, GemmCurve
from hwprofiles.profile import Peaks
from hwprofiles.quantities import FloatArray
from simulator.hardware_view.measured import MeasuredPoints
from simulator.hardware_view.panel import (
    Axis,
    Limit,
    Panel,
    Scales,
    Series,
    Sizes,
    between,
    level,
    origin,
    series,
    span,
)
from simulator.hardware_view.shapes import Shape, of_shape, typical, within

DenseCurve = GemmCurve | GemmByRowsCurve | GemmByShapeCurve

MOST_SHAPES = 5
SQUARES = (256.0, 1024.0, 4096.0, 16384.0)
"""Drawn where no shapes were measured."""
HEAD_INPUTS = 4096.0


def roofline_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """Per data type: FLOP/s against FLOP per byte, a curve per matrix, along the rows."""
    for precision, curve in profile.kernels.gemm.items():
        scales = _roofline_scales(curve)
        rows = points.rows("gemm", precision)
        curves = [
            _along_rows(f"{n:.0f} x {k:.0f}", scales, curve, (n, k), rows)
            for n, k in _matrices(curve, rows)
        ]
        head = profile.kernels.lm_head.get(precision)
        if head is not None:
            curves.append(_lm_head(scales, head, points.rows("lm_head", precision)))
        intensities = [x for each in curves for x in (*each.x, *each.marks.x)]
        yield Panel(
            kernel="gemm",
            title=f"Dense products, {precision}",
            note="outputs x inputs of the matrix, along the rows",
            x=scales.x,
            y=scales.y,
            series=curves,
            limits=[_roof(profile.peaks, precision, intensities)],
        )


def _roofline_scales(curve: DenseCurve) -> Scales:
    weight = curve.weight_element_bytes
    activation = curve.activation_element_bytes if isinstance(curve, GemmCurve) else weight

    def intensity(sizes: Sizes) -> FloatArray:
        m, n, k = (sizes[name] for name in ("m", "n", "k"))
        moved: FloatArray = weight * n * k + activation * m * (n + k)
        return 2.0 * m * n * k / moved

    def rate(sizes: Sizes, seconds: FloatArray) -> FloatArray:
        return 2.0 * sizes["m"] * sizes["n"] * sizes["k"] / seconds

    x, y = Axis("intensity", "FLOP/B"), Axis("attained rate", "FLOP/s")
    return Scales(x, y, intensity, rate)


def _along_rows(
    label: str, scales: Scales, curve: DenseCurve, shape: Shape, rows: pd.DataFrame
) -> Series:
    n, k = shape
    mine = of_shape(rows, ("n", "k"), shape)
    m = between(*span(mine, "m", curve.domain["m"]))
    sizes = {"m": m, "n": np.full(m.shape, n), "k": np.full(m.shape, k)}
    found = curve.time(m, n, k).seconds
    return series(label, scales, sizes, found, p90=curve.residual.p90, rows=mine)


def _matrices(curve: DenseCurve, rows: pd.DataFrame) -> list[Shape]:
    if len(rows):
        return typical(rows, ("n", "k"), MOST_SHAPES)
    inside: list[Shape] = [
        (side, side)
        for side in SQUARES
        if all(curve.domain[name][0] <= side <= curve.domain[name][1] for name in ("n", "k"))
    ]
    return inside or [(curve.domain["n"][1], curve.domain["k"][1])]


def _lm_head(scales: Scales, curve: DenseCurve, rows: pd.DataFrame) -> Series:
    if len(rows):
        (n, k), *_ = reversed(typical(rows, ("n", "k"), MOST_SHAPES))
    else:
        n, k = curve.domain["n"][1], within(HEAD_INPUTS, curve.domain["k"])
    return _along_rows(f"LM head {n:.0f} x {k:.0f}", scales, curve, (n, k), rows)


def _roof(peaks: Peaks, precision: str, intensities: list[float]) -> Limit:
    """The lesser of what memory and what arithmetic allow, bent where they meet."""
    bandwidth, peak = peaks.memory_bytes_per_s, peaks.flop_per_s(precision)
    ends = [min(intensities), max(intensities)]
    x = sorted({*ends, within(peak / bandwidth, (ends[0], ends[1]))})
    rates = [(bandwidth, "B/s"), (peak, "FLOP/s")]
    return Limit(origin(peaks), rates, x, [min(peak, bandwidth * each) for each in x])


def bandwidth_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """Weight bytes read per second by the fewest rows, against the bytes of the matrix."""
    curves = [
        _squares(precision, curve, points.rows("gemm", precision))
        for precision, curve in profile.kernels.gemm.items()
    ]
    if not curves:
        return
    scales = _bandwidth_scales(1.0)
    sizes = [x for each in curves for x in (*each.x, *each.marks.x)]
    yield Panel(
        kernel="gemm",
        title="Reading weights for the fewest rows",
        note="curves: square matrices; points: all of them",
        x=scales.x,
        y=scales.y,
        series=curves,
        limits=[level(profile.peaks, profile.peaks.memory_bytes_per_s, "B/s", sizes)],
    )


def _bandwidth_scales(element_bytes: float) -> Scales:
    def weights(sizes: Sizes) -> FloatArray:
        return element_bytes * sizes["n"] * sizes["k"]

    def rate(sizes: Sizes, seconds: FloatArray) -> FloatArray:
        return weights(sizes) / seconds

    return Scales(Axis("bytes of the matrix", "B"), Axis("rate", "B/s"), weights, rate)


def _squares(precision: str, curve: DenseCurve, rows: pd.DataFrame) -> Series:
    least = float(rows["m"].min()) if len(rows) else max(curve.domain["m"][0], 1.0)
    mine = rows[rows["m"] == least]
    n, k = (curve.domain[name] for name in ("n", "k"))
    # Square matrices as large as the smallest and the largest product that were measured.
    volumes = mine.assign(volume=mine["n"] * mine["k"])
    low, high = span(volumes, "volume", (max(n[0], k[0]) ** 2, min(n[1], k[1]) ** 2))
    side = np.sqrt(between(low, high))
    sizes = {"m": np.full(side.shape, least), "n": side, "k": side}
    return series(
        f"{precision}, m = {least:.0f}",
        _bandwidth_scales(curve.weight_element_bytes),
        sizes,
        curve.time(least, side, side).seconds,
        p90=curve.residual.p90,
        rows=mine,
    )
