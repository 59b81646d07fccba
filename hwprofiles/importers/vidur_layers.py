"""Vidur's `mlp.csv`: products and row kernels of one layer, by number of tokens.

Sizes are those of the whole model; every time is of one of the GPUs that it was cut for. The
operations of a layer run one after the other, so a weight is cold where the layer's weights
together exceed the last-level cache.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.fitting.judging import column
from hwprofiles.importers.cold import Cold
from hwprofiles.importers.table import MILLISECOND_S, numbers, require
from hwprofiles.quantities import FloatArray

BYTES = 2.0
"""Of an element: everything is in half precision."""
GPUS = "num_tensor_parallel_workers"
SIZES = ["num_tokens", "n_head", "n_kv_head", "n_embd", "n_expanded_embd", GPUS]
GATED = "use_gated_mlp"
COPIES = 6.0
"""Of a weight that `Cold` takes a benchmark to go round; a layer is one of each of its weights."""
# With more tokens the blocks fill the device, and what one of them does no longer shows.
MOST_ROW_TOKENS = 256
LM_HEAD_NOTE = "no LM head was measured: the other products stand for it"
GEMM_NOTE = (
    "mlp.csv: attn_pre_proj, attn_post_proj, mlp_up_proj and mlp_down_proj of layers larger than "
    "the cache; median over models"
)
ELEMENTWISE_NOTE = (
    "mlp.csv: add for streams; norms, rotary and activation of at most 256 tokens for rows; times "
    "to about 1 us; median over models"
)


def times_of(path: Path, rows: pd.DataFrame, operation: str) -> FloatArray:
    """Median seconds of an operation; raises TableError where one is missing or none."""
    name = f"time_stats.{operation}.median"
    require(path, [name], set(rows.columns))
    return column(numbers(path, rows, [name]), name) * MILLISECOND_S


def products(path: Path, rows: pd.DataFrame, cold: Cold) -> pd.DataFrame:
    """m, n, k and seconds of a layer's four products, of layers larger than the cache."""
    shapes = _products(rows)
    elements = np.sum([n * k for n, k in shapes.values()], axis=0)
    is_cold: npt.NDArray[np.bool_] = BYTES * elements >= COPIES * cold.weight_bytes
    kept = rows.loc[is_cold]
    made = [
        pd.DataFrame(
            {
                "m": column(kept, "num_tokens"),
                "n": n[is_cold],
                "k": k[is_cold],
                "seconds": times_of(path, kept, operation),
            }
        )
        for operation, (n, k) in shapes.items()
    ]
    return pd.concat(made)


def row_kernels(path: Path, rows: pd.DataFrame, cold: Cold) -> pd.DataFrame:
    """bytes_moved, row_bytes and seconds of row kernels with few tokens, and of cold streams."""
    few = rows[column(rows, "num_tokens") <= MOST_ROW_TOKENS]
    made = [
        _moving(path, few[has], operation, width[has], row_share=1.0)
        for operation, width in _widths(few).items()
        for has in [_is_timed(few, operation)]
    ]
    streams = _moving(path, rows, "add", 3.0 * column(rows, "n_embd"), row_share=0.0)
    return pd.concat([*made, streams[cold.streams(column(streams, "bytes_moved"))]])


def _moving(
    path: Path, rows: pd.DataFrame, operation: str, width: FloatArray, *, row_share: float
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "bytes_moved": BYTES * width * column(rows, "num_tokens"),
            "row_bytes": row_share * BYTES * width,
            "seconds": times_of(path, rows, operation),
        }
    )


def _is_timed(rows: pd.DataFrame, operation: str) -> npt.NDArray[np.bool_]:
    """Which rows have a time; models without rotary embeddings have none of those."""
    name = f"time_stats.{operation}.median"
    if name not in rows:
        return np.zeros(len(rows), dtype=np.bool_)
    return rows[name].notna().to_numpy(dtype=np.bool_)


def _widths(rows: pd.DataFrame) -> dict[str, FloatArray]:
    """Elements that each row kernel moves of a token, as the shipped profiles count them.

    A norm reads twice and writes once, rotary reads and writes queries and keys, SwiGLU reads two
    widths and writes one (other activations read one).
    """
    hidden, gpus = column(rows, "n_embd"), column(rows, GPUS)
    heads = (column(rows, "n_head") + column(rows, "n_kv_head")) * _head_dim(rows)
    activated = (_halves(rows) + 1.0) * column(rows, "n_expanded_embd")
    return {
        "input_layernorm": 3.0 * hidden,
        "post_attention_layernorm": 3.0 * hidden,
        "attn_rope": 2.0 * heads / gpus,
        "mlp_act": activated / gpus,
    }


def _products(rows: pd.DataFrame) -> dict[str, tuple[FloatArray, FloatArray]]:
    """(outputs, inputs) of each product on one GPU."""
    hidden, ffn = column(rows, "n_embd"), column(rows, "n_expanded_embd")
    gpus, heads = column(rows, GPUS), column(rows, "n_head")
    # With fewer KV heads than GPUs each has one.
    kv_heads = np.maximum(column(rows, "n_kv_head") / gpus, 1.0)
    head_dim = _head_dim(rows)
    return {
        "attn_pre_proj": ((heads / gpus + 2.0 * kv_heads) * head_dim, hidden),
        "attn_post_proj": (hidden, heads * head_dim / gpus),
        "mlp_up_proj": (_halves(rows) * ffn / gpus, hidden),
        "mlp_down_proj": (hidden, ffn / gpus),
    }


def _head_dim(rows: pd.DataFrame) -> FloatArray:
    return column(rows, "n_embd") / column(rows, "n_head")


def _halves(rows: pd.DataFrame) -> FloatArray:
    """Widths that the up projection makes: gate and up, or up alone."""
    if GATED not in rows:
        return np.full(len(rows), 2.0)
    return np.where(rows[GATED].astype(str).str.lower() == "false", 1.0, 2.0)
