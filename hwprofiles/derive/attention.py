"""Fits attention: whole prompts first, then few queries over a long cache at the same rate."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.derive.fitting import Search, fit, starts
from hwprofiles.derive.measured import (
    COLD_BYTES,
    COLLECTION,
    NOT_YET_JUDGED,
    column,
    fitted,
    held_out,
    median_over_frameworks,
    residual,
    span,
)
from hwprofiles.quantities import Domain, FloatArray

KEYS = ["batch", "q_len", "kv_len", "num_q_heads", "num_kv_heads", "head_dim"]
GROUP = ["num_q_heads", "num_kv_heads", "batch"]
# Caches this small are free to read: they show the floor.
FLOOR_BYTES = 2e6
# TensorRT-LLM's decode kernel falls to 0.1 TB/s when many query heads share a KV head.
TRTLLM_TOO_MANY_ROWS = 16
SHORTEST_PROMPT_TOKENS = 16
MULTIPROCESSORS = 132
# FlashAttention-3's tile for head_dim 128, and the most parts it cuts the keys into.
TILE_ROWS = 128
MOST_SPLITS = 128
# Measured decode rises gently up to a full tile, as rows in steps of 16 (the least a tensor core
# takes) would; prompts are priced in whole tiles.
EXTEND_GRANULE_ROWS = 16

SEARCH = {
    "launch_s": Search(1e-5, 1e-6, 5e-5),
    "wave_s": Search(3e-6, 1e-8, 2e-5),
    "wave_power": Search(1.5, 1.0, 6.0),
    "memory_bytes_per_s": Search(3e12, 5e11, 6e12),
    "roof_power": Search(1.5, 1.0, 8.0),
}
PREFILL_SEARCH = SEARCH | {"flop_per_s": Search(6e14, 1e14, 1e15)}
EXTEND_SEARCH = SEARCH | {
    "split_s": Search(5e-6, 1e-8, 5e-5),
    # A sharper roof would hide what full tiles add: 12-25 % more at 128 rows per KV head than at
    # 8 was measured, but on ten points, too few to steer the fit.
    "roof_power": Search(1.5, 1.0, 2.0),
    "split_kv_tokens": Search(1e3, 5e1, 2e4),
}


def prefill_points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds of causal bf16 prompts without a prefix, by batch, length and heads."""
    rows = table[
        (table["gpu"] == gpu)
        & (table["attn_dtype"] == "bfloat16")
        & (table["kv_dtype"] == "bfloat16")
        & (table["q_len"] >= SHORTEST_PROMPT_TOKENS)
    ]
    return median_over_frameworks(rows.assign(kv_len=rows["q_len"]), KEYS)


def extend_points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds of one query per sequence, 1..128 query heads per KV head, L2 sizes out."""
    heads_per_kv_head = table["num_q_heads"] / table["num_kv_heads"]
    sound = (table["framework"] != "trtllm") | (heads_per_kv_head < TRTLLM_TOO_MANY_ROWS)
    rows = table[(table["gpu"] == gpu) & (table["kv_dtype"] == "bfloat16") & sound]
    medians = median_over_frameworks(rows, KEYS)
    small = kv_bytes(medians) < FLOOR_BYTES
    return medians[is_cold(medians) | small].reset_index(drop=True)


def kv_bytes(rows: pd.DataFrame) -> FloatArray:
    """Bytes of bf16 keys and values that each row reads."""
    tokens = column(rows, "batch") * column(rows, "kv_len")
    return 4.0 * tokens * column(rows, "num_kv_heads") * column(rows, "head_dim")


def is_cold(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which points read their keys and values from memory rather than from L2."""
    return kv_bytes(rows) >= COLD_BYTES


def predicted_s(curve: AttentionCurve, rows: pd.DataFrame) -> FloatArray:
    """What *curve* says for each row: a batch of equal sequences.

    b sequences with h KV heads each are b * h units of the same work, so they are asked for as
    one sequence with b * h KV heads; that makes one call of a whole table.
    """
    batch = column(rows, "batch")
    return curve.time(
        column(rows, "q_len")[np.newaxis],
        column(rows, "kv_len")[np.newaxis],
        query_heads=batch * column(rows, "num_q_heads"),
        kv_heads=batch * column(rows, "num_kv_heads"),
        head_dim=int(rows["head_dim"].iloc[0]),
        kv_element_bytes=2.0,
    ).seconds


def prefill(table: pd.DataFrame, gpu: str) -> AttentionCurve:
    """The curve of causal prompts of one GPU."""
    template = AttentionCurve(
        form="attention",
        causal=True,
        tile_rows=TILE_ROWS,
        row_granule=TILE_ROWS,
        multiprocessors=MULTIPROCESSORS,
        key_splits=1,
        split_s=0.0,
        split_kv_tokens=1.0,
        **starts(PREFILL_SEARCH),
        residual=NOT_YET_JUDGED,
        domain={},
        source=fitted(
            f"{COLLECTION}; attention_context.csv, bf16, head_dim 128, no prefix, 16 tokens and "
            "more; median over frameworks"
        ),
    )
    return _fitted(template, PREFILL_SEARCH, prefill_points(table, gpu))


def extend(table: pd.DataFrame, gpu: str, *, flop_per_s: float) -> AttentionCurve:
    """The curve of few queries over a cache of one GPU; *flop_per_s* is what prompts reach."""
    template = AttentionCurve(
        form="attention",
        causal=False,
        tile_rows=TILE_ROWS,
        row_granule=EXTEND_GRANULE_ROWS,
        multiprocessors=MULTIPROCESSORS,
        key_splits=MOST_SPLITS,
        flop_per_s=flop_per_s,
        **starts(EXTEND_SEARCH),
        residual=NOT_YET_JUDGED,
        domain={},
        source=fitted(
            f"{COLLECTION}; attention_generation.csv, bf16, head_dim 128, one query, 1..128 query "
            "heads per KV head, caches >= 60 MB or < 2 MB; median over frameworks, trtllm only "
            "below 16 heads per KV head; flop_per_s from attention_prefill. Times include the "
            "KV-cache write and one CUDA-graph launch. Several queries per sequence were not "
            "measured: their rows are taken to cost what as many heads do"
        ),
    )
    return _fitted(template, EXTEND_SEARCH, extend_points(table, gpu))


def _fitted(
    template: AttentionCurve, search: Mapping[str, Search], measured: pd.DataFrame
) -> AttentionCurve:
    """The curve fitted to some head counts and batches of *measured*, judged on the others."""
    unseen = held_out(measured, GROUP)
    seen, judged = measured[~unseen], measured[unseen]
    curve = fit(
        replace(template, domain=_domain(measured)),
        search,
        predict=lambda trial: predicted_s(trial, seen),
        measured_s=column(seen, "seconds"),
    )
    return replace(curve, residual=residual(predicted_s(curve, judged), column(judged, "seconds")))


def _domain(measured: pd.DataFrame) -> Domain:
    rows_per_kv_head = (
        column(measured, "q_len")
        * column(measured, "num_q_heads")
        / column(measured, "num_kv_heads")
    )
    return {
        "rows_per_kv_head": span(rows_per_kv_head),
        "kv_tokens": span(measured["kv_len"]),
        "kv_bytes": span(kv_bytes(measured)),
        "sequences": span(measured["batch"]),
        "head_dim": span(measured["head_dim"]),
    }
