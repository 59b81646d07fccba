"""Tabulates attention, by the rows of a KV head or by the keys of a prompt, for each head size."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import pandas as pd

from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.curves.by_head_dim import SizeTable
from hwprofiles.fitting.attention import attention_domain, kv_bytes, predicted_s
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.rising_table import NOTHING_YET, fit_with_table, rising_table
from hwprofiles.fitting.search import Search, significant, starts
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray

LEAST_SIZES = 2
"""Different sizes that a head size needs for a table."""


def fit_attention_table(
    points: Points,
    *,
    by: Literal["rows", "keys"],
    element_bytes: float,
    search: Mapping[str, Search],
    source: Source,
) -> AttentionTableCurve:
    """The tables made of the seen *points* and judged on the others."""
    seen, judges = points.seen, points.judges
    flop = 4.0 * column(seen, "head_dim") * _query_rows(seen) * _share(seen, by)
    flop *= column(seen, "kv_tokens")
    curve = AttentionTableCurve(
        form="attention-table",
        by=by,
        **starts(search),
        by_head_dim={1: SizeTable(sizes=NOTHING_YET, seconds=NOTHING_YET)},
        memory_bytes_per_s=significant((kv_bytes(seen, element_bytes) / seconds(seen)).max()),
        flop_per_s=significant((flop / seconds(seen)).max()),
        residual=NOT_YET_JUDGED,
        domain=attention_domain(points.table, element_bytes),
        source=source,
    )
    curve = fit_with_table(
        curve,
        search,
        predict=lambda trial: predicted_s(trial, seen, element_bytes),
        measured_s=seconds(seen),
        tabulated=lambda trial: replace(trial, by_head_dim=_tables(seen, trial)),
    )
    judged_s = predicted_s(curve, judges, element_bytes)
    return replace(curve, residual=residual(judged_s, seconds(judges)))


def _query_rows(points: pd.DataFrame) -> FloatArray:
    """Of all sequences and heads."""
    rows: FloatArray = column(points, "sequences") * column(points, "query_heads")
    return rows * column(points, "query_tokens")


def _share(points: pd.DataFrame, by: str) -> FloatArray:
    """Of the keys, what a query sees on average."""
    hidden = (column(points, "query_tokens") - 1.0) / 2.0 if by == "keys" else 0.0
    share: FloatArray = 1.0 - hidden / column(points, "kv_tokens")
    return share


def _pieces(points: pd.DataFrame, by: str) -> tuple[FloatArray, FloatArray]:
    """(what the table is multiplied by, what it is looked up at)."""
    if by == "keys":
        return _query_rows(points) * _share(points, by), column(points, "kv_tokens")
    heads = column(points, "sequences") * column(points, "kv_heads")
    return heads * column(points, "kv_tokens"), _query_rows(points) / heads


def _tables(points: pd.DataFrame, curve: AttentionTableCurve) -> dict[int, SizeTable]:
    """What is left of the times behind the launch and the rows, by head size."""
    made = {}
    for head_dim in points["head_dim"].unique():
        mine = points[points["head_dim"] == head_dim]
        pieces, sizes = _pieces(mine, curve.by)
        fixed_s = curve.launch_s + _query_rows(mine) * curve.row_s
        fixed_s += column(mine, "sequences") * curve.sequence_s
        known, times = rising_table(sizes, pieces, seconds(mine), fixed_s)
        if len(known) >= LEAST_SIZES:
            made[int(head_dim)] = SizeTable(sizes=known, seconds=times)
    return made
