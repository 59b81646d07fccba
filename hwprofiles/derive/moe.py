"""Fits the fused mixture-of-experts module under balanced routing."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.derive.measured import COLLECTION, HELD_OUT_IN, median_over_frameworks
from hwprofiles.fitting.judging import column, fitted, held_out
from hwprofiles.fitting.moe import fit_moe
from hwprofiles.fitting.points import Points
from hwprofiles.fitting.search import Search
from hwprofiles.quantities import FloatArray

SHAPE = ["hidden", "inter", "num_experts", "topk", "tp"]
MEASURED_TYPES = {"bf16": "bfloat16", "fp8": "fp8_block"}
# The routed experts of LLaDA2-mini, the model this is for, count for more in the fit.
MINI = {"hidden": 2048, "num_experts": 256, "topk": 8}
MINI_WEIGHT = 4.0

# The fastest stream in the tables (H200 writes) reaches this share of the data sheet's bandwidth.
# Unbounded, the cost of an expert trades against bandwidth and the fit may pass the peak.
FASTEST_STREAM = 0.97

SEARCH = {
    "launch_s": Search(2.4e-5, 2e-6, 2e-4),
    "expert_s": Search(7e-8, 1e-10, 1e-6),
    "row_bytes_per_s": Search(5e11, 5e10, 5e12),
    "memory_bytes_per_s": Search(3e12, 1e12, 6e12),
    "flop_per_s": Search(6e14, 1e14, 2e15),
    "padding_rows": Search(3e1, 1e-1, 3e2),
    "roof_power": Search(1.8, 1.0, 8.0),
}


def measured_points(table: pd.DataFrame, gpu: str, weights: str) -> pd.DataFrame:
    """Median seconds by tokens and shape of one GPU, balanced routing, no expert parallelism."""
    rows = table[
        (table["gpu"] == gpu)
        & (table["dtype"] == MEASURED_TYPES[weights])
        & (table["routing"] == "balanced")
        & (table["ep"] == 1)
    ]
    medians = median_over_frameworks(rows, ["num_tokens", *SHAPE])
    return medians.assign(
        tokens=medians["num_tokens"],
        active_experts=active_experts(medians),
        expert_ffn=medians["inter"] / medians["tp"],
        top_k=medians["topk"],
        experts=medians["num_experts"],
    )


def is_mini(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which rows have the routed experts of LLaDA2-mini, at any tensor parallelism."""
    same = [column(rows, name) == size for name, size in MINI.items()]
    return np.asarray(np.logical_and.reduce(same))


def active_experts(rows: pd.DataFrame) -> FloatArray:
    """Experts with a token when routing is balanced."""
    return np.minimum(
        column(rows, "num_experts"), column(rows, "topk") * column(rows, "num_tokens")
    )


def grouped(
    table: pd.DataFrame, gpu: str, *, weights: str, peak_bytes_per_s: float
) -> GroupedMoeCurve:
    """The curve of one GPU; *weights* is bf16 or fp8 (scaled in blocks)."""
    stream = replace(SEARCH["memory_bytes_per_s"], high=FASTEST_STREAM * peak_bytes_per_s)
    measured = measured_points(table, gpu, weights)
    points = Points(measured, held_out(measured, ["num_tokens", *SHAPE], one_in=HELD_OUT_IN))
    return fit_moe(
        points,
        weights=weights,
        search=SEARCH | {"memory_bytes_per_s": stream},
        source=fitted(
            f"{COLLECTION}; moe.csv, {MEASURED_TYPES[weights]}, balanced routing, ep 1; median "
            "over frameworks; rows shaped like LLaDA2-mini weigh fourfold"
        ),
        weight=np.where(is_mini(points.seen), MINI_WEIGHT, 1.0),
    )
