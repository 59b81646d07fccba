"""Fits elementwise kernels."""

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.curves.streaming import StreamingCurve
from hwprofiles.derive.measured import COLD_BYTES, HELD_OUT_IN, median_over_frameworks
from hwprofiles.fitting.judging import column, fitted, held_out
from hwprofiles.fitting.points import Points
from hwprofiles.fitting.search import Search
from hwprofiles.fitting.streaming import fit_streaming, with_rows

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


def measured_points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds by shape of the static bf16-to-fp8 quantisation, L2-resident sizes out."""
    rows = table[(table["gpu"] == gpu) & (table["op"] == "bf16_to_fp8_static_quant")]
    medians = median_over_frameworks(rows, ["rows", "cols", "bytes_moved"])
    small = medians["bytes_moved"] < FLOOR_BYTES
    return medians[is_cold(medians) | small].reset_index(drop=True).assign(row_bytes=0.0)


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
    measured, by_row = measured_points(table, gpu), row_points(rows)
    streams = Points(measured, held_out(measured, ["rows", "cols"], one_in=HELD_OUT_IN))
    keys = ["op", "row_bytes", "num_tokens"]
    row_kernels = Points(by_row, held_out(by_row, keys, one_in=HELD_OUT_IN))
    curve = fit_streaming(
        streams,
        search=SEARCH,
        row_bytes_per_s=SEARCH_ROW["row_bytes_per_s"].start,
        source=fitted(
            "AIConfigurator silicon collection (NVIDIA), commit 095f58a: vllm 0.24.0, trtllm "
            "1.3.0rc20; mem_bw.csv, static bf16-to-fp8 quantisation, >= 60 MB or < 0.5 MB moved; "
            "median over frameworks. Row bandwidth: Vidur (commit 7d47513, "
            "elementwise_vidur_h100.csv), RMSNorm, rotary and SwiGLU of at most 256 tokens on an "
            "H100, timed to about 1 us; taken to be the same on an H200, whose multiprocessors are"
        ),
    )
    return with_rows(curve, row_kernels, search=SEARCH_ROW)
