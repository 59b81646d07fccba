"""Fits elementwise kernels: those that stream, and those that give each row to one block."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.by_head_dim import SizeTable
from hwprofiles.curves.streaming import OperationCost, StreamingCurve
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.rising_table import rising_table
from hwprofiles.fitting.scale import Scale
from hwprofiles.fitting.search import Search, fit, significant, starts
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray

STREAM = "copy"
"""The operation that streams, without a row or a calculation."""
LEAST_OF_OPERATION = 3
"""Points for an operation to have a cost of its own."""


def predicted_s(curve: StreamingCurve, rows: pd.DataFrame) -> FloatArray:
    """What *curve* says for each row of bytes_moved, row_bytes and, where there is one, operation.

    The operation is named as in the curve: data type and name.
    """
    fixed = curve.launch_s + column(rows, "row_bytes") / curve.row_bytes_per_s
    found: FloatArray = fixed + column(rows, "bytes_moved") / curve.memory_bytes_per_s
    for name, own in (curve.operations or {}).items():
        mine = (rows["operation"] == name).to_numpy()
        found[mine] = own.seconds(column(rows, "bytes_moved")[mine])
    return found


def fit_operations(
    rows: pd.DataFrame,
    unseen: npt.NDArray[np.bool_],
    scale: Scale,
    source: Source,
    *,
    tabulates: bool = False,
) -> StreamingCurve:
    """The curve of *rows* that name their operation: streams, and a cost for each of the others.

    An operation has no row term: its launch, its own, holds what a row takes. With *tabulates*
    each has a table by its bytes beside.
    """
    is_stream = rows["operation"].str.endswith(f" {STREAM}").to_numpy()
    base = fit_streaming(
        Points(rows[is_stream], unseen[is_stream]),
        search=scale.streaming,
        row_bytes_per_s=significant(scale.memory_bytes_per_s),
        source=source,
    )
    operations = {
        str(name): _operation(base, Points(mine, unseen[mine.index]), scale, tabulates=tabulates)
        for name, mine in rows.reset_index(drop=True)[~is_stream].groupby("operation")
        if len(mine) >= LEAST_OF_OPERATION
    }
    domain = {name: span(rows[name]) for name in ("bytes_moved", "row_bytes")}
    curve = replace(base, operations=operations, domain=domain)
    judges = rows[unseen]
    return replace(curve, residual=residual(predicted_s(curve, judges), seconds(judges)))


def _operation(
    base: StreamingCurve, points: Points, scale: Scale, *, tabulates: bool
) -> OperationCost:
    """Launch and bandwidth of one operation; rows are left to them."""
    alone = replace(points, table=points.table.assign(row_bytes=0.0))
    made = fit_streaming(
        alone, search=scale.streaming, row_bytes_per_s=base.row_bytes_per_s, source=base.source
    )
    own = OperationCost(
        launch_s=made.launch_s,
        memory_bytes_per_s=made.memory_bytes_per_s,
        residual=made.residual,
    )
    return _tabulated(own, points) if tabulates else own


def _tabulated(own: OperationCost, points: Points) -> OperationCost:
    """*own* with a table of the seen *points*, judged on the others."""
    seen, judges = points.seen, points.judges
    moved = column(seen, "bytes_moved")
    if len(np.unique(moved)) < LEAST_OF_OPERATION:
        return own
    sizes, times = rising_table(moved, np.ones(len(seen)), seconds(seen), 0.0)
    made = replace(own, table=SizeTable(sizes, times))
    judged_s = made.seconds(column(judges, "bytes_moved"))
    return replace(made, residual=residual(judged_s, seconds(judges)))


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
