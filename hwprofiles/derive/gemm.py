"""Fits the dense products: all shapes, fp8 weights, and the very wide LM head."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.gemm import GemmCurve
from hwprofiles.derive.measured import (
    COLD_WEIGHT_BYTES,
    COLLECTION,
    HELD_OUT_IN,
    median_over_frameworks,
)
from hwprofiles.fitting.gemm import WEIGHT_ELEMENT_BYTES, fit_gemm
from hwprofiles.fitting.judging import column, fitted, held_out
from hwprofiles.fitting.points import Points
from hwprofiles.fitting.search import Search

# Weights this small cost next to nothing to read, hot or cold: they show the launch.
FLOOR_WEIGHT_BYTES = 1e6
LM_HEAD_OUTPUTS = 50_000
MEASURED_TYPES = {"bf16": ["bfloat16"], "fp8": ["fp8", "fp8_block"]}

SEARCH = {
    "launch_s": Search(2.8e-6, 1e-7, 3e-5),
    "launch_per_k_s": Search(8e-10, 1e-12, 1e-8),
    "launch_k_limit": Search(4e3, 5e2, 2e4),
    "launch_power": Search(1.2, 1.0, 6.0),
    "roof_power": Search(2.6, 1.0, 12.0),
    "memory_bytes_per_s": Search(3e12, 1e12, 6e12),
    "flop_per_s": Search(7e14, 1e14, 3e15),
}


def measured_points(table: pd.DataFrame, gpu: str, weights: str) -> pd.DataFrame:
    """Median seconds by m, n, k of one GPU and weight type, the L2-resident weights left out."""
    rows = table[(table["gpu"] == gpu) & table["dtype"].isin(MEASURED_TYPES[weights])]
    medians = median_over_frameworks(rows, ["m", "n", "k"])
    small = medians["n"] * medians["k"] * WEIGHT_ELEMENT_BYTES[weights] < FLOOR_WEIGHT_BYTES
    return medians[is_cold(medians, weights) | small].reset_index(drop=True)


def is_cold(measured: pd.DataFrame, weights: str) -> npt.NDArray[np.bool_]:
    """Which points read their weights from memory rather than from L2."""
    weight_bytes = column(measured, "n") * column(measured, "k") * WEIGHT_ELEMENT_BYTES[weights]
    return weight_bytes >= COLD_WEIGHT_BYTES


def lm_head_points(table: pd.DataFrame, llama: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds by m, n, k of the widest bf16 products, the Llama LM heads among them."""
    names = ["m", "n", "k", "latency_us"]
    wide = (table["gpu"] == gpu) & (table["dtype"] == "bfloat16") & (table["n"] >= LM_HEAD_OUTPUTS)
    heads = (llama["gpu"] == gpu) & (llama["n"] >= LM_HEAD_OUTPUTS)
    both = pd.concat([table.loc[wide, names], llama.loc[heads, names]])
    medians = median_over_frameworks(both, ["m", "n", "k"])
    return medians[is_cold(medians, "bf16")].reset_index(drop=True)


def dense(table: pd.DataFrame, gpu: str, weights: str) -> GemmCurve:
    """The curve of every dense product of one GPU; *weights* is bf16 or fp8."""
    kind = "bf16" if weights == "bf16" else "fp8 and fp8_block, activations quantised inside"
    text = f"{COLLECTION}; gemm.csv, {kind}, weights >= 12 MB or < 1 MB; median over frameworks"
    return _fitted(measured_points(table, gpu, weights), weights, text)


def lm_head(table: pd.DataFrame, llama: pd.DataFrame, gpu: str) -> GemmCurve:
    """The curve of the widest bf16 products of one GPU."""
    text = f"{COLLECTION}; gemm.csv, bf16, n >= 50000; median over frameworks"
    if (llama["gpu"] == gpu).any():
        text += (
            "; with the LM heads (n = 64128, 128256; fp16) of gemm_llama_layers_h100.csv, "
            "LLMServingSim commit 5daddb2, torch profiler"
        )
    return _fitted(lm_head_points(table, llama, gpu), "bf16", text)


def _fitted(measured: pd.DataFrame, weights: str, text: str) -> GemmCurve:
    """The curve fitted to some shapes of *measured* and judged on the cold ones of the others."""
    unseen = held_out(measured, ["n", "k"], one_in=HELD_OUT_IN)
    points = Points(measured, unseen, judged=is_cold(measured, weights))
    return fit_gemm(points, weights=weights, search=SEARCH, source=fitted(text))
