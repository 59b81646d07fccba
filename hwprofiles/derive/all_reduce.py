"""Tabulates the all-reduce by number of GPUs and message size."""

from itertools import chain

import numpy as np
import pandas as pd

from hwprofiles.curves.all_reduce import AllReduceCurve, MessageTable
from hwprofiles.derive.fitting import significant
from hwprofiles.derive.measured import (
    COLLECTION,
    column,
    median_over_frameworks,
    residual,
    span,
)
from hwprofiles.provenance import Source
from hwprofiles.quantities import FloatArray

# Beyond this every framework's own kernel has handed over to NCCL.
LARGEST_CUSTOM_BYTES = 16_777_216


def points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds by num_gpus and bytes: custom kernels in a CUDA graph, then NCCL."""
    mine = table[(table["gpu"] == gpu) & (table["op"] == "all_reduce")]
    custom = (mine["mode"] == "cuda_graph") & (mine["bytes"] <= LARGEST_CUSTOM_BYTES)
    nccl = (mine["framework"] == "nccl-tests") & (mine["bytes"] > LARGEST_CUSTOM_BYTES)
    return median_over_frameworks(mine[custom | nccl], ["num_gpus", "bytes"])


def message_table(sizes: FloatArray, seconds: FloatArray) -> MessageTable:
    """The table of rising *sizes*, freed of disturbed points.

    A disturbance only ever adds time, so a time above that of a larger message gives way to it.
    """
    undisturbed = np.minimum.accumulate(seconds[::-1])[::-1]
    return MessageTable(
        message_bytes=[significant(size) for size in sizes],
        seconds=[significant(time) for time in undisturbed],
    )


def left_out_s(sizes: FloatArray, seconds: FloatArray) -> FloatArray:
    """Each inner time as the table made of all other sizes has it."""
    inner = range(1, len(sizes) - 1)
    return np.array(
        [
            message_table(np.delete(sizes, i), np.delete(seconds, i)).lookup(sizes[i : i + 1])[0]
            for i in inner
        ]
    )


def custom(table: pd.DataFrame, gpu: str) -> AllReduceCurve:
    """The curve of one GPU; its residual leaves out one size at a time."""
    measured = points(table, gpu)
    by_ranks = {
        ranks: (column(rows, "bytes"), column(rows, "seconds"))
        for ranks in sorted(int(count) for count in measured["num_gpus"].unique())
        for rows in [measured[measured["num_gpus"] == ranks]]
    }
    judged = {ranks: (left_out_s(*pair), pair[1][1:-1]) for ranks, pair in by_ranks.items()}
    return AllReduceCurve(
        form="all-reduce",
        by_ranks={ranks: message_table(*pair) for ranks, pair in by_ranks.items()},
        residual=residual(
            list(chain.from_iterable(guess for guess, _ in judged.values())),
            list(chain.from_iterable(truth for _, truth in judged.values())),
        ),
        residual_by_ranks={ranks: residual(*pair) for ranks, pair in judged.items()},
        domain={"message_bytes": span(measured["bytes"]), "ranks": span(measured["num_gpus"])},
        source=Source(
            kind="measured",
            text=f"{COLLECTION}, custom all-reduce in a CUDA graph up to 16.8 MB, median over "
            "frameworks; NCCL 2.29.2 beyond; allreduce.csv; residuals leave out one size at a time",
        ),
    )
