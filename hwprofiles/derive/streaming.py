"""Fits elementwise kernels."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.streaming import StreamingCurve
from hwprofiles.derive.fitting import Search, fit, starts
from hwprofiles.derive.measured import (
    COLD_BYTES,
    NOT_YET_JUDGED,
    column,
    fitted,
    held_out,
    median_over_frameworks,
    residual,
    span,
)

# Small enough to show the launch alone.
FLOOR_BYTES = 5e5
SEARCH = {
    "launch_s": Search(1.6e-6, 1e-7, 1e-5),
    "memory_bytes_per_s": Search(3e12, 1e12, 6e12),
}


def points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds by shape of the static bf16-to-fp8 quantisation, L2-resident sizes out."""
    rows = table[(table["gpu"] == gpu) & (table["op"] == "bf16_to_fp8_static_quant")]
    medians = median_over_frameworks(rows, ["rows", "cols", "bytes_moved"])
    small = medians["bytes_moved"] < FLOOR_BYTES
    return medians[is_cold(medians) | small].reset_index(drop=True)


def is_cold(rows: pd.DataFrame) -> npt.NDArray[np.bool_]:
    """Which points stream from memory rather than from L2."""
    return column(rows, "bytes_moved") >= COLD_BYTES


def elementwise(table: pd.DataFrame, gpu: str) -> StreamingCurve:
    """The curve of one GPU."""
    measured = points(table, gpu)
    unseen = held_out(measured, ["rows", "cols"])
    seen, judged = measured[~unseen], measured[unseen]
    template = StreamingCurve(
        form="streaming",
        **starts(SEARCH),
        residual=NOT_YET_JUDGED,
        domain={"bytes_moved": span(measured["bytes_moved"])},
        source=fitted(
            "AIConfigurator silicon collection (NVIDIA), commit 095f58a: vllm 0.24.0, trtllm "
            "1.3.0rc20; mem_bw.csv, static bf16-to-fp8 quantisation, >= 60 MB or < 0.5 MB moved; "
            "median over frameworks. A lower bound for kernels that do more than stream: on H100 "
            "Vidur (commit 7d47513, elementwise_vidur_h100.csv) timed cold residual adds at 0.9, "
            "SiLU at 1.5, RoPE at 1.9 and RMSNorm at 2.7 times what this says"
        ),
    )
    curve = fit(
        template,
        SEARCH,
        predict=lambda trial: trial.time(column(seen, "bytes_moved")).seconds,
        measured_s=column(seen, "seconds"),
    )
    predicted_s = curve.time(column(judged, "bytes_moved")).seconds
    return replace(curve, residual=residual(predicted_s, column(judged, "seconds")))
