"""Streaming kernels of the package's tables; products of one row where there are none."""

import pandas as pd

from hwprofiles.fitting.judging import column
from hwprofiles.importers.collected import BF16, Collection, Found, Table
from hwprofiles.importers.dense_tables import GEMM

SCALE = Table("quantize", "scale_matrix_perf", ("m", "k"), "quant_dtype", ("fp8",))
# Reads two bytes and writes one of every element.
QUANTISED_BYTES = 3.0
# SGLang's kernel reaches a tenth of the bandwidth: it does not stream.
NOT_STREAMING = "sglang"
BF16_BYTES = 2.0
LEAST_STREAMS = 20
STAND_IN = (
    "no streaming kernel was measured: products of one row, which stream their weight, stand for "
    "it, though their launch takes up to twice as long (3.3 against 1.8 us on an H100)"
)


def streams(collection: Collection) -> Found:
    """Quantisations of bf16 to fp8, or else products of one row, which stream their weight."""
    rows, told = collection.medians(
        "elementwise", SCALE, _quantisations, frameworks=_streaming(collection)
    )
    what = f"{told}; static bf16-to-fp8 quantisation"
    if len(rows) < LEAST_STREAMS:
        rows, told = collection.medians("elementwise", GEMM, _single_rows)
        what = f"{STAND_IN}; {told}"
    kept = rows[collection.cold.streams(column(rows, "bytes_moved"))]
    note = f"{what}; {collection.cold.streams_told}; median over frameworks"
    return Found("elementwise", "bf16", kept, note)


def _streaming(collection: Collection) -> list[str]:
    return [name for name in collection.frameworks(SCALE.family) if name != NOT_STREAMING]


def _quantisations(rows: pd.DataFrame, _: str) -> pd.DataFrame:
    moved = QUANTISED_BYTES * column(rows, "m") * column(rows, "k")
    return rows.assign(type=rows["quant_dtype"], bytes_moved=moved, row_bytes=0.0)


def _single_rows(rows: pd.DataFrame, _: str) -> pd.DataFrame:
    kept = rows[(rows["gemm_dtype"] == BF16) & (rows["m"] == 1)]
    n, k = column(kept, "n"), column(kept, "k")
    moved = BF16_BYTES * (n * k + n + k)
    return kept.assign(type=kept["gemm_dtype"], bytes_moved=moved, row_bytes=0.0)
