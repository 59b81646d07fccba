"""Attention: few queries over a prefix by how many they are, and whole prompts."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from hwprofiles import HardwareProfile
from hwprofiles.curves import AttentionCurve, AttentionTableCurve
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
    series,
    span,
)
from simulator.hardware_view.shapes import middle, of_shape, within
from simulator.model import ELEMENT_BYTES

QUERIES = (1.0, 16.0, 32.0, 64.0, 128.0, 256.0)
MOST_PREFIX_SPAN = 1000.0
"""Greatest over least prefix of a curve where none was measured."""
SHAPE = ("sequences", "query_heads", "kv_heads", "head_dim")

Attention = AttentionCurve | AttentionTableCurve


@dataclass(frozen=True)
class Batch:
    """Equal sequences of one model."""

    sequences: float
    query_heads: float
    kv_heads: float
    head_dim: float
    kv_element_bytes: float

    @property
    def words(self) -> str:
        """For the reader of a figure."""
        heads = f"{self.query_heads:.0f} query heads on {self.kv_heads:.0f} KV heads"
        plural = "" if self.sequences == 1 else "s"
        return f"{self.sequences:.0f} sequence{plural}, {heads} of {self.head_dim:.0f}"

    @property
    def token_bytes(self) -> float:
        """Keys and values of one position of every sequence."""
        each = 2.0 * self.kv_heads * self.head_dim * self.kv_element_bytes
        return self.sequences * each

    def sizes(self, queries: FloatArray, keys: FloatArray) -> Sizes:
        """The columns of points with as many queries and keys."""
        fixed = {name: np.full(keys.shape, getattr(self, name)) for name in SHAPE}
        return {**fixed, "query_tokens": np.broadcast_to(queries, keys.shape), "kv_tokens": keys}

    def seconds(self, curve: Attention, queries: FloatArray, keys: FloatArray) -> FloatArray:
        """What *curve* says; b sequences of h KV heads are as much work as one of b * h."""
        return curve.time(
            np.broadcast_to(queries, keys.shape)[np.newaxis],
            keys[np.newaxis],
            query_heads=self.sequences * self.query_heads,
            kv_heads=self.sequences * self.kv_heads,
            head_dim=int(self.head_dim),
            kv_element_bytes=self.kv_element_bytes,
        ).seconds

    def is_outside(self, curve: Attention, queries: float) -> bool:
        """Whether *curve* was fitted on no batch with as many query rows per KV head."""
        low, high = curve.domain["rows_per_kv_head"]
        return not low <= queries * self.query_heads / self.kv_heads <= high


def _batch(curve: Attention, precision: str, rows: pd.DataFrame, sequences: float) -> Batch:
    """Of the points where there are any, else of a common model."""
    if len(rows):
        batch, query_heads, kv_heads, head_dim = middle(rows, SHAPE)
    else:
        batch, query_heads, kv_heads = within(sequences, curve.domain["sequences"]), 32.0, 8.0
        head_dim = within(128.0, curve.domain["head_dim"])
    element = ELEMENT_BYTES.get(precision, ELEMENT_BYTES["bf16"])
    return Batch(batch, query_heads, kv_heads, head_dim, element)


def extend_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """Per data type: time against keys, a curve per number of queries."""
    for precision, curve in profile.kernels.attention_extend.items():
        every = points.rows("attention_extend", precision)
        known = every[every["query_tokens"].isin(QUERIES)]
        rows = known if len(known) else every
        batch = _batch(curve, precision, rows, sequences=8.0)
        mine = of_shape(rows, SHAPE, _shape(batch))
        counts = sorted(mine["query_tokens"].unique())[: len(QUERIES)] or QUERIES
        curves = [_over_prefix(curve, batch, count, mine) for count in counts]
        keys = [x for each in curves for x in (*each.x, *each.marks.x)]
        yield Panel(
            kernel="attention_extend",
            title=f"Attention over a prefix, {precision}",
            note=batch.words,
            x=Axis("keys", "tokens"),
            y=Axis("time", "s"),
            series=curves,
            limits=[_reading(profile, batch, [min(keys), max(keys)])],
        )


def _shape(batch: Batch) -> tuple[float, ...]:
    return tuple(float(getattr(batch, name)) for name in SHAPE)


def _over_prefix(curve: Attention, batch: Batch, count: float, rows: pd.DataFrame) -> Series:
    mine = rows[rows["query_tokens"] == count]
    most = min(curve.domain["kv_tokens"][1], curve.domain["kv_bytes"][1] / batch.token_bytes)
    least = max(curve.domain["kv_tokens"][0], most / MOST_PREFIX_SPAN, count)
    keys = between(*span(mine, "kv_tokens", (least, max(most, 2.0 * least))))
    queries = np.asarray(count)
    return series(
        "1 query" if count == 1 else f"{count:.0f} queries",
        Scales(Axis("keys", "tokens"), Axis("time", "s"), _keys, _time),
        batch.sizes(queries, keys),
        batch.seconds(curve, queries, keys),
        p90=curve.residual.p90,
        rows=mine,
        is_extrapolated=batch.is_outside(curve, count),
    )


def _reading(profile: HardwareProfile, batch: Batch, keys: list[float]) -> Limit:
    """The time that memory takes to give keys and values away once."""
    rate = profile.peaks.memory_bytes_per_s
    return Limit(
        "keys and values once",
        [(rate, "B/s")],
        keys,
        [batch.token_bytes * each / rate for each in keys],
    )


def prefill_panels(profile: HardwareProfile, points: MeasuredPoints) -> Iterator[Panel]:
    """Per data type: FLOP/s of causal attention against the tokens of a prompt."""
    for precision, curve in profile.kernels.attention_prefill.items():
        every = points.rows("attention_prefill", precision)
        rows = every[every["query_tokens"] == every["kv_tokens"]]
        batch = _batch(curve, precision, rows, sequences=1.0)
        mine = of_shape(rows, SHAPE, _shape(batch))
        curves = [_whole_prompts(curve, batch, mine)]
        tokens = [x for each in curves for x in (*each.x, *each.marks.x)]
        yield Panel(
            kernel="attention_prefill",
            title=f"Attention of whole prompts, {precision}",
            note=batch.words,
            x=Axis("prompt", "tokens"),
            y=Axis("attained rate", "FLOP/s"),
            series=curves,
            limits=[level(profile.peaks, profile.peaks.flop_per_s(precision), "FLOP/s", tokens)],
        )


def _whole_prompts(curve: Attention, batch: Batch, rows: pd.DataFrame) -> Series:
    tokens = between(*span(rows, "query_tokens", curve.domain["kv_tokens"]))
    return series(
        "causal",
        Scales(Axis("prompt", "tokens"), Axis("attained rate", "FLOP/s"), _queries, _causal_rate),
        batch.sizes(tokens, tokens),
        batch.seconds(curve, tokens, tokens),
        p90=curve.residual.p90,
        rows=rows,
    )


def _keys(sizes: Sizes) -> FloatArray:
    return sizes["kv_tokens"]


def _queries(sizes: Sizes) -> FloatArray:
    return sizes["query_tokens"]


def _time(sizes: Sizes, seconds: FloatArray) -> FloatArray:  # noqa: ARG001 (as other scales)
    return seconds


def _causal_rate(sizes: Sizes, seconds: FloatArray) -> FloatArray:
    """4 FLOP per head element and pair of query and key that a causal mask leaves."""
    queries, keys = sizes["query_tokens"], sizes["kv_tokens"]
    pairs: FloatArray = queries * keys - queries * (queries - 1.0) / 2.0
    return 4.0 * sizes["sequences"] * sizes["query_heads"] * sizes["head_dim"] * pairs / seconds
