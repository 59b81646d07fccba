"""Fits the fused mixture-of-experts module."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import SIZES, Points, seconds
from hwprofiles.fitting.search import Search, fit, starts
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray


def predicted_s(curve: GroupedMoeCurve, rows: pd.DataFrame) -> FloatArray:
    """What *curve* says for each row."""
    return curve.time(
        column(rows, "tokens"),
        column(rows, "active_experts"),
        hidden=column(rows, "hidden"),
        expert_ffn=column(rows, "expert_ffn"),
        top_k=column(rows, "top_k"),
        experts=column(rows, "experts"),
    ).seconds


def fit_moe(
    points: Points,
    *,
    weights: str,
    search: Mapping[str, Search],
    source: Source,
    weight: FloatArray | float = 1.0,
) -> GroupedMoeCurve:
    """The curve fitted to the seen *points*, each counting *weight*, and judged on the others."""
    template = GroupedMoeCurve(
        form="grouped-moe",
        **starts(search),
        weight_element_bytes=WEIGHT_ELEMENT_BYTES[weights],
        residual=NOT_YET_JUDGED,
        domain={name: span(points.table[name]) for name in SIZES["moe"]},
        source=source,
    )
    seen, judges = points.seen, points.judges
    curve = fit(
        template,
        search,
        predict=lambda trial: predicted_s(trial, seen),
        measured_s=seconds(seen),
        weight=weight,
    )
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))
