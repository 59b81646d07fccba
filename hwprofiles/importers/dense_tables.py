"""Dense products of the package's tables."""

import pandas as pd

from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES
from hwprofiles.fitting.judging import column
from hwprofiles.importers.collected import BF16, Collection, Found, Table

GEMM = Table("gemm", "gemm_perf", ("m", "n", "k"), "gemm_dtype", (BF16, "fp8", "fp8_block"))
TYPES = {"bf16": (BF16,), "fp8": ("fp8", "fp8_block")}
# vLLM's block-scaled products were timed eagerly on one weight, and TensorRT-LLM's per-tensor ones
# with several kernels of quantisation around them.
UNSOUND = {("vllm", "fp8_block"), ("trtllm", "fp8")}
LEAST_WIDTH = {"bf16": 256, "fp8": 1024}
"""Narrower products of fp8 take longer to quantise than to multiply."""
MOST_INPUTS, MOST_ROWS = 16_384, 8_192
ROW_TILE, SINGLE_ROWS = 16, 17
"""Beyond the latter the grid has every multiple of a tile and one more, which a smooth form cannot
tell apart: those one past are left out."""
LM_HEAD_OUTPUTS = 50_000


def products(collection: Collection) -> list[Found]:
    """Products of bf16 and fp8 weights that come from memory."""
    return [_products(collection, precision) for precision in TYPES]


def heads(collection: Collection, precision: str = "bf16") -> Found:
    """The widest products, which LM heads are."""
    rows = _medians(collection, precision)[0]
    size_bytes = column(rows, "n") * column(rows, "k") * WEIGHT_ELEMENT_BYTES[precision]
    wide = (column(rows, "n") >= LM_HEAD_OUTPUTS) & (size_bytes >= collection.cold.weight_bytes)
    return Found("lm_head", precision, rows[wide], f"gemm_perf, n >= {LM_HEAD_OUTPUTS}")


def _products(collection: Collection, precision: str) -> Found:
    rows, told = _medians(collection, precision)
    size_bytes = column(rows, "n") * column(rows, "k") * WEIGHT_ELEMENT_BYTES[precision]
    kept = rows[collection.cold.weights(size_bytes)]
    note = (
        f"{told}; {_span_told(precision)}; {collection.cold.weights_told}; median over frameworks"
    )
    if precision == "fp8":
        note += "; fp8 and fp8_block, activations quantised inside"
    return Found("gemm", precision, kept, note)


def _span_told(precision: str) -> str:
    rows = f"m <= {MOST_ROWS}, beyond {SINGLE_ROWS} in steps of {ROW_TILE}"
    return f"n and k >= {LEAST_WIDTH[precision]}, k <= {MOST_INPUTS}, {rows}"


def _medians(collection: Collection, precision: str) -> tuple[pd.DataFrame, str]:
    return collection.medians("gemm", GEMM, lambda rows, who: _choose(rows, who, precision))


def _choose(rows: pd.DataFrame, framework: str, precision: str) -> pd.DataFrame:
    sound = [name for name in TYPES[precision] if (framework, name) not in UNSOUND]
    least = LEAST_WIDTH[precision]
    kept = rows[
        rows["gemm_dtype"].isin(sound)
        & (rows["n"] >= least)
        & rows["k"].between(least, MOST_INPUTS)
        & (rows["m"] <= MOST_ROWS)
        & ((rows["m"] <= SINGLE_ROWS) | (rows["m"] % ROW_TILE == 0))
    ]
    return kept.assign(type=kept["gemm_dtype"])
