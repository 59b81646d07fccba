"""Grouped experts: time of a module against the tokens it is given."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from hwprofiles import HardwareProfile
from hwprofiles.curves import GroupedMoeCurve
from hwprofiles.quantities import FloatArray
from simulator.hardware_view.measured import MeasuredPoints
from simulator.hardware_view.panel import Axis, Panel, Scales, Series, Sizes, between, series, span
from simulator.hardware_view.shapes import Shape, of_shape, typical, within

SHAPE = ("hidden", "expert_ffn", "top_k", "experts")
COMMON: Shape = (2048.0, 512.0, 8.0, 256.0)
"""Drawn where none was measured, as near as the fitted range allows."""
MOST_CURVES = 4


def expert_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """One panel of all data types, where there are experts."""
    each = max(1, MOST_CURVES // max(1, len(profile.kernels.moe)))
    curves = [
        _along_tokens(precision, curve, points.rows("moe", precision), shape)
        for precision, curve in profile.kernels.moe.items()
        for shape in _shapes(curve, points.rows("moe", precision), each)
    ]
    if curves:
        yield Panel(
            kernel="moe",
            title="Grouped experts",
            note="top_k of experts, hidden x width",
            x=SCALES.x,
            y=SCALES.y,
            series=curves,
            limits=[],
        )


def _shapes(curve: GroupedMoeCurve, rows: pd.DataFrame, most: int) -> list[Shape]:
    if len(rows):
        return typical(rows, SHAPE, most)
    return [tuple(within(v, curve.domain[name]) for name, v in zip(SHAPE, COMMON, strict=True))]


def _along_tokens(
    precision: str, curve: GroupedMoeCurve, rows: pd.DataFrame, shape: Shape
) -> Series:
    hidden, ffn, top_k, experts = shape
    mine = _widest(of_shape(rows, SHAPE, shape))
    tokens = between(*span(mine, "tokens", curve.domain["tokens"]))
    active = _active(mine, tokens, top_k, experts)
    found = curve.time(
        tokens, active, hidden=hidden, expert_ffn=ffn, top_k=top_k, experts=experts
    ).seconds
    sizes = {"tokens": tokens}
    label = f"{precision} {top_k:.0f} of {experts:.0f}, {hidden:.0f} x {ffn:.0f}"
    return series(label, SCALES, sizes, found, p90=curve.residual.p90, rows=mine)


def _widest(rows: pd.DataFrame) -> pd.DataFrame:
    """Of each number of tokens the points that reach the most experts; curves follow those."""
    return rows[rows["active_experts"] == rows.groupby("tokens")["active_experts"].transform("max")]


def _active(rows: pd.DataFrame, tokens: FloatArray, top_k: float, experts: float) -> FloatArray:
    """Experts that have a token: as in the points, else as many as there can be."""
    if rows.empty:
        return np.minimum(tokens * top_k, experts)
    ordered = rows.sort_values("tokens")
    active: FloatArray = np.interp(tokens, ordered["tokens"], ordered["active_experts"])
    return active


def _tokens(sizes: Sizes) -> FloatArray:
    return sizes["tokens"]


def _time(sizes: Sizes, seconds: FloatArray) -> FloatArray:  # noqa: ARG001 (as other scales)
    return seconds


SCALES = Scales(Axis("tokens", "tokens"), Axis("time", "s"), _tokens, _time)
