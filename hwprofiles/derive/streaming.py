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
# Bytes of a token's row in fp16, from the columns of Vidur's table: RMSNorm reads twice and writes
# once, rotary reads and writes queries and keys, SwiGLU reads two widths and writes one.
ELEMENT_BYTES = 2.0
HEAD_DIM = 128.0
ROW_TOKENS = 256
SEARCH_ROW = {"row_bytes_per_s": Search(1.5e10, 1e9, 1e12)}
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


def row_points(table: pd.DataFrame) -> pd.DataFrame:
    """Seconds of Vidur's row kernels (H100) for few rows, with `row_bytes` and `bytes_moved`."""
    split = table["q_heads"] + table["kv_heads"]
    widths = {
        "rms_norm": 3.0 * table["hidden"],
        "rope": 2.0 * split * HEAD_DIM / table["tp"],
        "silu_and_mul": 3.0 * table["ffn"] / table["tp"],
    }
    made = []
    for op, width in widths.items():
        chosen = (table["op"] == op) & (table["num_tokens"] <= ROW_TOKENS)
        rows = table[chosen].assign(row_bytes=ELEMENT_BYTES * width[chosen])
        made.append(rows.assign(bytes_moved=rows["row_bytes"] * rows["num_tokens"]))
    found = pd.concat(made, ignore_index=True)
    return found.assign(seconds=found["latency_us"] * 1e-6)


def elementwise(table: pd.DataFrame, rows: pd.DataFrame, gpu: str) -> StreamingCurve:
    """The curve of one GPU; *rows* is Vidur's table, of an H100 for either."""
    return _with_rows(_streaming(table, gpu), row_points(rows))


def _with_rows(curve: StreamingCurve, measured: pd.DataFrame) -> StreamingCurve:
    """*curve* with the bandwidth of one row fitted."""
    unseen = held_out(measured, ["op", "row_bytes", "num_tokens"])
    seen, judged = measured[~unseen], measured[unseen]

    def predict(trial: StreamingCurve, points: pd.DataFrame) -> npt.NDArray[np.float64]:
        widths, moved = points["row_bytes"].to_numpy(), column(points, "bytes_moved")
        fixed = trial.launch_s + widths / trial.row_bytes_per_s
        seconds: npt.NDArray[np.float64] = fixed + moved / trial.memory_bytes_per_s
        return seconds

    fitted_curve = fit(
        curve,
        SEARCH_ROW,
        predict=lambda trial: predict(trial, seen),
        measured_s=column(seen, "seconds"),
    )
    return replace(
        fitted_curve,
        row_residual=residual(predict(fitted_curve, judged), column(judged, "seconds")),
        domain=curve.domain | {"row_bytes": (0.0, float(measured["row_bytes"].max()))},
    )


def _streaming(table: pd.DataFrame, gpu: str) -> StreamingCurve:
    """The curve of one GPU for kernels that stream."""
    measured = points(table, gpu)
    unseen = held_out(measured, ["rows", "cols"])
    seen, judged = measured[~unseen], measured[unseen]
    template = StreamingCurve(
        form="streaming",
        **starts(SEARCH),
        row_bytes_per_s=SEARCH_ROW["row_bytes_per_s"].start,
        residual=NOT_YET_JUDGED,
        row_residual=NOT_YET_JUDGED,
        domain={"bytes_moved": span(measured["bytes_moved"])},
        source=fitted(
            "AIConfigurator silicon collection (NVIDIA), commit 095f58a: vllm 0.24.0, trtllm "
            "1.3.0rc20; mem_bw.csv, static bf16-to-fp8 quantisation, >= 60 MB or < 0.5 MB moved; "
            "median over frameworks. Row bandwidth: Vidur (commit 7d47513, "
            "elementwise_vidur_h100.csv), RMSNorm, rotary and SwiGLU of at most 256 tokens on an "
            "H100, timed to about 1 us; taken to be the same on an H200, whose multiprocessors are"
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
