"""Fits attention: whole prompts first, then few queries over a long cache at the same rate."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.attention import AttentionCurve
from hwprofiles.derive.measured import (
    COLD_BYTES,
    COLLECTION,
    HELD_OUT_IN,
    median_over_frameworks,
)
from hwprofiles.fitting.attention import fit_attention, kv_bytes
from hwprofiles.fitting.judging import NOT_YET_JUDGED, fitted, held_out
from hwprofiles.fitting.points import Points
from hwprofiles.fitting.search import Search, starts

# Their names in the tables, and the names of a point's sizes.
SIZES = {
    "batch": "sequences",
    "q_len": "query_tokens",
    "kv_len": "kv_tokens",
    "num_q_heads": "query_heads",
    "num_kv_heads": "kv_heads",
    "head_dim": "head_dim",
}
GROUP = ["query_heads", "kv_heads", "sequences"]
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
    return _medians(rows.assign(kv_len=rows["q_len"]))


def extend_points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds of one query per sequence, 1..128 query heads per KV head, L2 sizes out."""
    heads_per_kv_head = table["num_q_heads"] / table["num_kv_heads"]
    sound = (table["framework"] != "trtllm") | (heads_per_kv_head < TRTLLM_TOO_MANY_ROWS)
    rows = table[(table["gpu"] == gpu) & (table["kv_dtype"] == "bfloat16") & sound]
    medians = _medians(rows)
    small = kv_bytes(medians) < FLOOR_BYTES
    return medians[is_cold(medians) | small].reset_index(drop=True)


def is_cold(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which points read their keys and values from memory rather than from L2."""
    return kv_bytes(rows) >= COLD_BYTES


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


def _medians(rows: pd.DataFrame) -> pd.DataFrame:
    return median_over_frameworks(rows, list(SIZES)).rename(columns=SIZES)


def _fitted(
    template: AttentionCurve, search: Mapping[str, Search], measured: pd.DataFrame
) -> AttentionCurve:
    """The curve fitted to some head counts and batches of *measured*, judged on the others."""
    unseen = held_out(measured, GROUP, one_in=HELD_OUT_IN)
    return fit_attention(template, Points(measured, unseen), search=search)
