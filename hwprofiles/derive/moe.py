"""Fits the fused mixture-of-experts module under balanced routing."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.moe import GroupedMoeCurve
from hwprofiles.derive.fitting import Search, fit, starts
from hwprofiles.derive.measured import (
    COLLECTION,
    NOT_YET_JUDGED,
    column,
    fitted,
    held_out,
    median_over_frameworks,
    residual,
    span,
)
from hwprofiles.quantities import FloatArray

SHAPE = ["hidden", "inter", "num_experts", "topk", "tp"]
MEASURED_TYPES = {"bf16": "bfloat16", "fp8": "fp8_block"}
WEIGHT_ELEMENT_BYTES = {"bf16": 2.0, "fp8": 1.0}
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


def points(table: pd.DataFrame, gpu: str, weights: str) -> pd.DataFrame:
    """Median seconds by tokens and shape of one GPU, balanced routing, no expert parallelism."""
    rows = table[
        (table["gpu"] == gpu)
        & (table["dtype"] == MEASURED_TYPES[weights])
        & (table["routing"] == "balanced")
        & (table["ep"] == 1)
    ]
    return median_over_frameworks(rows, ["num_tokens", *SHAPE])


def is_mini(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which rows have the routed experts of LLaDA2-mini, at any tensor parallelism."""
    same = [column(rows, name) == size for name, size in MINI.items()]
    return np.asarray(np.logical_and.reduce(same))


def active_experts(rows: pd.DataFrame) -> FloatArray:
    """Experts with a token when routing is balanced."""
    return np.minimum(
        column(rows, "num_experts"), column(rows, "topk") * column(rows, "num_tokens")
    )


def predicted_s(curve: GroupedMoeCurve, rows: pd.DataFrame) -> FloatArray:
    """What *curve* says for each row."""
    return curve.time(
        column(rows, "num_tokens"),
        active_experts(rows),
        hidden=column(rows, "hidden"),
        expert_ffn=column(rows, "inter") / column(rows, "tp"),
        top_k=column(rows, "topk"),
        experts=column(rows, "num_experts"),
    ).seconds


def grouped(
    table: pd.DataFrame, gpu: str, *, weights: str, peak_bytes_per_s: float
) -> GroupedMoeCurve:
    """The curve of one GPU; *weights* is bf16 or fp8 (scaled in blocks)."""
    stream = replace(SEARCH["memory_bytes_per_s"], high=FASTEST_STREAM * peak_bytes_per_s)
    measured = points(table, gpu, weights)
    unseen = held_out(measured, ["num_tokens", *SHAPE])
    seen, judged = measured[~unseen], measured[unseen]
    template = GroupedMoeCurve(
        form="grouped-moe",
        **starts(SEARCH),
        weight_element_bytes=WEIGHT_ELEMENT_BYTES[weights],
        residual=NOT_YET_JUDGED,
        domain={
            "tokens": span(measured["num_tokens"]),
            "active_experts": span(active_experts(measured)),
            "hidden": span(measured["hidden"]),
            "expert_ffn": span(measured["inter"] / measured["tp"]),
            "top_k": span(measured["topk"]),
            "experts": span(measured["num_experts"]),
        },
        source=fitted(
            f"{COLLECTION}; moe.csv, {MEASURED_TYPES[weights]}, balanced routing, ep 1; median "
            "over frameworks; rows shaped like LLaDA2-mini weigh fourfold"
        ),
    )
    curve = fit(
        template,
        SEARCH | {"memory_bytes_per_s": stream},
        predict=lambda trial: predicted_s(trial, seen),
        measured_s=column(seen, "seconds"),
        weight=np.where(is_mini(seen), MINI_WEIGHT, 1.0),
    )
    return replace(curve, residual=residual(predicted_s(curve, judged), column(judged, "seconds")))
