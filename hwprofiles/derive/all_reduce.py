"""The measured all-reduce of one GPU."""

import pandas as pd

from hwprofiles.curves.all_reduce import AllReduceCurve
from hwprofiles.derive.measured import COLLECTION, median_over_frameworks
from hwprofiles.fitting.all_reduce import tabulate
from hwprofiles.provenance import Source

# Beyond this every framework's own kernel has handed over to NCCL.
LARGEST_CUSTOM_BYTES = 16_777_216


def measured_points(table: pd.DataFrame, gpu: str) -> pd.DataFrame:
    """Median seconds by num_gpus and bytes: custom kernels in a CUDA graph, then NCCL."""
    mine = table[(table["gpu"] == gpu) & (table["op"] == "all_reduce")]
    custom = (mine["mode"] == "cuda_graph") & (mine["bytes"] <= LARGEST_CUSTOM_BYTES)
    nccl = (mine["framework"] == "nccl-tests") & (mine["bytes"] > LARGEST_CUSTOM_BYTES)
    medians = median_over_frameworks(mine[custom | nccl], ["num_gpus", "bytes"])
    return medians.assign(ranks=medians["num_gpus"], message_bytes=medians["bytes"])


def custom(table: pd.DataFrame, gpu: str) -> AllReduceCurve:
    """The curve of one GPU."""
    return tabulate(
        measured_points(table, gpu),
        Source(
            kind="measured",
            text=f"{COLLECTION}, custom all-reduce in a CUDA graph up to 16.8 MB, median over "
            "frameworks; NCCL 2.29.2 beyond; allreduce.csv; residuals leave out one size at a time",
        ),
    )
