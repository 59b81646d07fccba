"""Tabulates attention by the rows of a KV head that meet a key, for each head size."""

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from hwprofiles.curves.attention_by_rows import AttentionByRowsCurve, KeyTable
from hwprofiles.fitting.attention import attention_domain, kv_bytes, predicted_s
from hwprofiles.fitting.judging import NOT_YET_JUDGED, column, residual
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.rising_table import rising_table
from hwprofiles.fitting.search import Search, fit, significant, starts
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray

_NOTHING_YET = KeyTable(rows=[1.0, 2.0], key_s=[1.0, 1.0])
ROUNDS = 8
"""Of fitting the launch to the tables and the tables to the launch; more change nothing."""
LEAST_ROWS = 2
"""Different row counts that a head size needs for a table."""


def fit_attention_by_rows(
    points: Points,
    *,
    causal: bool,
    element_bytes: float,
    search: Mapping[str, Search],
    source: Source,
) -> AttentionByRowsCurve:
    """The tables made of the seen *points* and judged on the others."""
    seen, judges = points.seen, points.judges
    flop = 4.0 * column(seen, "head_dim") * _rows(seen) * _meetings(seen, causal=causal)
    curve = AttentionByRowsCurve(
        form="attention-by-rows",
        causal=causal,
        **starts(search),
        by_head_dim={1: _NOTHING_YET},
        memory_bytes_per_s=significant((kv_bytes(seen, element_bytes) / seconds(seen)).max()),
        flop_per_s=significant((flop / seconds(seen)).max()),
        residual=NOT_YET_JUDGED,
        domain=attention_domain(points.table, element_bytes),
        source=source,
    )
    curve = replace(curve, by_head_dim=_tables(seen, curve))
    for _ in range(ROUNDS):
        curve = fit(
            curve,
            search,
            predict=lambda trial: predicted_s(trial, seen, element_bytes),
            measured_s=seconds(seen),
        )
        curve = replace(curve, by_head_dim=_tables(seen, curve))
    judged_s = predicted_s(curve, judges, element_bytes)
    return replace(curve, residual=residual(judged_s, seconds(judges)))


def _rows(points: pd.DataFrame) -> FloatArray:
    """Of a KV head."""
    return (
        column(points, "query_tokens") * column(points, "query_heads") / column(points, "kv_heads")
    )


def _meetings(points: pd.DataFrame, *, causal: bool) -> FloatArray:
    """Keys that the rows meet on average, over all sequences and KV heads."""
    hidden = (column(points, "query_tokens") - 1.0) / 2.0 if causal else 0.0
    met = column(points, "kv_tokens") - hidden
    meetings: FloatArray = column(points, "sequences") * column(points, "kv_heads") * met
    return meetings


def _tables(points: pd.DataFrame, curve: AttentionByRowsCurve) -> dict[int, KeyTable]:
    """What is left of the times behind the launch and the rows, by head size."""
    made = {}
    for head_dim, mine in points.groupby("head_dim"):
        meetings = _meetings(mine, causal=curve.causal)
        heads = column(mine, "sequences") * column(mine, "kv_heads")
        fixed_s = curve.launch_s + heads * _rows(mine) * curve.row_s
        rows, times = rising_table(_rows(mine), meetings, seconds(mine), fixed_s)
        if len(rows) >= LEAST_ROWS:
            made[int(str(head_dim).split(".", maxsplit=1)[0])] = KeyTable(rows=rows, key_s=times)
    return made
