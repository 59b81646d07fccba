"""Fits attention: many queries without a prefix, or few queries over a long one."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.curves.attention_table import AttentionTableCurve
from hwprofiles.fitting.judging import column, residual, span
from hwprofiles.fitting.points import Points, seconds
from hwprofiles.fitting.search import Search, fit
from hwprofiles.quantities import Domain, FloatArray


def kv_bytes(rows: pd.DataFrame, element_bytes: float = 2.0) -> FloatArray:
    """Bytes of keys and values that each row reads."""
    tokens = column(rows, "sequences") * column(rows, "kv_tokens")
    return 2.0 * element_bytes * tokens * column(rows, "kv_heads") * column(rows, "head_dim")


def predicted_s(
    curve: AttentionCurve | AttentionTableCurve, rows: pd.DataFrame, element_bytes: float = 2.0
) -> FloatArray:
    """What *curve* says for each row: a batch of equal sequences.

    b sequences with h KV heads each are b * h units of the same work, so they are asked for as
    one sequence with b * h KV heads; that makes one call of a whole table of one head size.
    """
    batch = column(rows, "sequences")
    found = np.empty(len(rows))
    for head_dim in rows["head_dim"].unique():
        chosen = (rows["head_dim"] == head_dim).to_numpy()
        found[chosen] = curve.time(
            column(rows, "query_tokens")[np.newaxis, chosen],
            column(rows, "kv_tokens")[np.newaxis, chosen],
            query_heads=(batch * column(rows, "query_heads"))[chosen],
            kv_heads=(batch * column(rows, "kv_heads"))[chosen],
            head_dim=int(head_dim),
            kv_element_bytes=element_bytes,
        ).seconds
    if isinstance(curve, AttentionTableCurve):
        found += curve.sequence_s * (batch - 1)
    return found


def fit_attention(
    template: AttentionCurve,
    points: Points,
    *,
    search: Mapping[str, Search],
    element_bytes: float = 2.0,
) -> AttentionCurve:
    """*template* fitted to the seen *points* and judged on the others."""
    seen, judges = points.seen, points.judges
    curve = fit(
        replace(template, domain=attention_domain(points.table, element_bytes)),
        search,
        predict=lambda trial: predicted_s(trial, seen, element_bytes),
        measured_s=seconds(seen),
    )
    judged_s = predicted_s(curve, judges, element_bytes)
    return replace(curve, residual=residual(judged_s, seconds(judges)))


def attention_domain(rows: pd.DataFrame, element_bytes: float) -> Domain:
    """The range of each size in *rows*."""
    rows_per_kv_head = (
        column(rows, "query_tokens") * column(rows, "query_heads") / column(rows, "kv_heads")
    )
    return {
        "rows_per_kv_head": span(rows_per_kv_head),
        "kv_tokens": span(rows["kv_tokens"]),
        "kv_bytes": span(kv_bytes(rows, element_bytes)),
        "sequences": span(rows["sequences"]),
        "head_dim": span(rows["head_dim"]),
    }
