"""Fits the dense product's closed form."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from hwprofiles.curves.gemm import GemmCurve
from hwprofiles.curves.gemm_by_rows import GemmByRowsCurve
from hwprofiles.curves.gemm_by_shape import GemmByShapeCurve
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.search import Search, fit, starts
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray

WEIGHT_ELEMENT_BYTES = {"bf16": 2.0, "fp8": 1.0, "fp32": 4.0}
# An fp8 product reads bf16, writes and reads fp8 (4 bytes per input), and writes bf16 (2 bytes
# per output): 3 on average.
ACTIVATION_ELEMENT_BYTES = {"bf16": 2.0, "fp8": 3.0, "fp32": 4.0}


def predicted_s(
    curve: GemmCurve | GemmByRowsCurve | GemmByShapeCurve, rows: pd.DataFrame
) -> FloatArray:
    """What *curve* says for each row of m, n, k."""
    return curve.time(column(rows, "m"), column(rows, "n"), column(rows, "k")).seconds


def fit_gemm(
    points: Points, *, weights: str, search: Mapping[str, Search], source: Source
) -> GemmCurve:
    """The curve fitted to the seen *points* and judged on the others."""
    template = GemmCurve(
        form="gemm",
        **starts(search),
        weight_element_bytes=WEIGHT_ELEMENT_BYTES[weights],
        activation_element_bytes=ACTIVATION_ELEMENT_BYTES[weights],
        residual=NOT_YET_JUDGED,
        domain={name: span(points.table[name]) for name in ("m", "n", "k")},
        source=source,
    )
    seen = points.seen
    curve = fit(
        template,
        search,
        predict=lambda trial: predicted_s(trial, seen),
        measured_s=seconds(seen),
    )
    judges = points.judges
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))
