"""Attention of the package's tables: whole prompts, and one query over a prefix."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.fitting.attention import kv_bytes
from hwprofiles.fitting.judging import column
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.collected import BF16, Collection, Found, Table

SIZES = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step")
CONTEXT = Table(
    "attention",
    "context_attention_perf",
    SIZES,
    "kv_cache_dtype",
    (BF16,),
    labels=("attn_dtype",),
    optional={"window_size": 0},
)
GENERATION = Table(
    "attention",
    "generation_attention_perf",
    SIZES,
    "kv_cache_dtype",
    (BF16,),
    labels=("attn_dtype",),
    optional={"window_size": 0},
)
HEAD_DIM = 128
SHORTEST_PROMPT_TOKENS = 16
# TensorRT-LLM's decode kernel falls to a tenth of the bandwidth when so many query heads share a
# KV head.
TRTLLM_TOO_MANY_ROWS = 16


def prompts(collection: Collection) -> Found:
    """Whole prompts without a prefix."""
    rows, told = collection.medians("attention_prefill", CONTEXT, _prompts)
    note = f"{told}; bf16, head_dim 128, no prefix, 16 tokens and more; median over frameworks"
    return Found("attention_prefill", "bf16", rows, note)


def queries(collection: Collection) -> Found:
    """One query per sequence, whose keys and values come from memory."""
    rows, told = collection.medians("attention_extend", GENERATION, _queries)
    kept = shown_cold(rows, collection.cold)
    note = (
        f"{told}; bf16, head_dim 128, one query, {collection.cold.caches_told}; median over "
        "frameworks, trtllm only below 16 heads per KV head. Times include the KV-cache write and "
        "one CUDA-graph launch. Several queries per sequence were not measured: their rows are "
        "taken to cost what as many heads do"
    )
    return Found("attention_extend", "bf16", kept, note)


def shown_cold(rows: pd.DataFrame, cold: Cold) -> pd.DataFrame:
    """Cold points, and small ones with no more rows per KV head than a cold point has.

    Launches alone say nothing of how so many rows are multiplied.
    """
    if rows.empty:
        return rows
    size_bytes = kv_bytes(rows)
    rows_per_head = (
        column(rows, "query_tokens") * column(rows, "query_heads") / column(rows, "kv_heads")
    )
    most = rows_per_head[size_bytes >= cold.whole_bytes].max(initial=0.0)
    shown: npt.NDArray[np.bool_] = cold.caches(size_bytes) & (rows_per_head <= most)
    return rows.loc[shown]


def _prompts(rows: pd.DataFrame, _: str) -> pd.DataFrame:
    kept = _plain(rows)
    kept = kept[(kept["isl"] >= SHORTEST_PROMPT_TOKENS) & (kept["step"] == 0)]
    return _named(kept, query_tokens=kept["isl"], kv_tokens=kept["isl"])


def _queries(rows: pd.DataFrame, framework: str) -> pd.DataFrame:
    kept = _plain(rows)
    shared = column(kept, "num_heads") / column(kept, "num_key_value_heads")
    kept = kept[(framework != "trtllm") | (shared < TRTLLM_TOO_MANY_ROWS)]
    return _named(kept, query_tokens=kept["isl"], kv_tokens=kept["step"] + kept["isl"])


def _plain(rows: pd.DataFrame) -> pd.DataFrame:
    """Those of bf16 and the usual head, without a window."""
    return rows[
        (rows["attn_dtype"] == BF16)
        & (rows["kv_cache_dtype"] == BF16)
        & (rows["head_dim"] == HEAD_DIM)
        & (rows["window_size"] == 0)
    ]


def _named(rows: pd.DataFrame, **tokens: pd.Series) -> pd.DataFrame:
    return rows.assign(
        type=rows["kv_cache_dtype"],
        sequences=rows["batch_size"],
        query_heads=rows["num_heads"],
        kv_heads=rows["num_key_value_heads"],
        **tokens,
    )
