"""Vidur's `attention.csv`: whole prompts, and one query per sequence over a prefix.

Sizes are those of the whole model; times are of one of the GPUs that it was cut for.
"""

from pathlib import Path

import numpy as np
import pandas as pd

from hwprofiles.fitting.judging import column
from hwprofiles.importers.attention_tables import shown_cold
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.vidur_layers import GPUS, times_of

SIZES = ["n_q_head", "n_kv_head", "n_embd", GPUS]
SIZES += ["batch_size", "prefill_chunk_size", "kv_cache_size"]
IS_PREFILL = "is_prefill"
PREFILL_NOTE = "attention.csv: attn_prefill without a prefix; median over models"
EXTEND_NOTE = (
    "attention.csv: attn_decode, one query, {caches}; median over models. Several queries per "
    "sequence were not measured: their rows are taken to cost what as many heads do"
)


def prompts(path: Path, rows: pd.DataFrame) -> pd.DataFrame:
    """Sizes and seconds of prompts without a prefix."""
    whole = rows[_is_prefill(rows) & (column(rows, "kv_cache_size") == 0)]
    tokens = column(whole, "prefill_chunk_size")
    return _sized(whole).assign(
        query_tokens=tokens,
        kv_tokens=tokens,
        seconds=times_of(path, whole, "attn_prefill"),
    )


def queries(path: Path, rows: pd.DataFrame, cold: Cold) -> pd.DataFrame:
    """Sizes and seconds of single queries whose keys and values come from memory."""
    decode = rows[~_is_prefill(rows)]
    made = _sized(decode).assign(
        query_tokens=1.0,
        kv_tokens=column(decode, "kv_cache_size") + 1.0,
        seconds=times_of(path, decode, "attn_decode"),
    )
    return shown_cold(made, cold)


def _is_prefill(rows: pd.DataFrame) -> pd.Series:
    return rows[IS_PREFILL].astype(str).str.lower() == "true"


def _sized(rows: pd.DataFrame) -> pd.DataFrame:
    """Sequences and the heads of one GPU."""
    gpus, heads = column(rows, GPUS), column(rows, "n_q_head")
    return pd.DataFrame(
        {
            "sequences": column(rows, "batch_size"),
            "query_heads": heads / gpus,
            "kv_heads": np.maximum(column(rows, "n_kv_head") / gpus, 1.0),
            "head_dim": column(rows, "n_embd") / heads,
        },
        index=rows.index,
    )
