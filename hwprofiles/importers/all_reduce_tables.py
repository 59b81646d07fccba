"""All-reduces of the package's tables: custom kernels, and NCCL where they hand over."""

import pandas as pd

from hwprofiles.fitting.judging import column
from hwprofiles.importers.collected import Collection, Found, Table

TWO_BYTES = ("half", "bfloat16")
CUSTOM = Table(
    "comm",
    "custom_allreduce_perf",
    ("num_gpus", "message_size"),
    "allreduce_dtype",
    TWO_BYTES,
    optional={"backend": ""},
)
NCCL = Table(
    "comm", "nccl_perf", ("num_gpus", "message_size"), "nccl_dtype", TWO_BYTES, labels=("op_name",)
)
LARGEST_CUSTOM_BYTES = 16_777_216
"""Beyond this every framework's own kernel has handed over to NCCL."""
ELEMENT_BYTES = 2.0
EAGER = "eager"
LIBRARY = "nccl"
LEAST_SIZES = 3


def all_reduces(collection: Collection) -> Found:
    """Custom kernels in a CUDA graph, then NCCL; nothing where neither was measured."""
    own = [name for name in collection.frameworks(CUSTOM.family) if name != LIBRARY]
    custom, told = collection.medians("all_reduce", CUSTOM, _graphs, frameworks=own)
    library, library_told = collection.medians("all_reduce", NCCL, _library, frameworks=[LIBRARY])
    small = custom["message_bytes"] <= LARGEST_CUSTOM_BYTES
    large = library["message_bytes"] > LARGEST_CUSTOM_BYTES
    alone = ~library["ranks"].isin(custom["ranks"])
    parts = [custom[small] if len(library) else custom, library[large | alone]]
    points = _told_enough(pd.concat([rows for rows in parts if len(rows)] or [custom]))
    return Found("all_reduce", "bf16", points, _note(told, library_told))


def _note(custom: str, library: str) -> str:
    """Who measured which messages."""
    graphs = f"{custom}, in a CUDA graph" if custom else ""
    beyond = "beyond 16.8 MB and for numbers of GPUs without a kernel of their own"
    parts = [graphs, f"{library}, {beyond}" if library and custom else library]
    return "; ".join(part for part in [*parts, "median over frameworks"] if part)


def _told_enough(rows: pd.DataFrame) -> pd.DataFrame:
    """The numbers of GPUs with enough sizes for a table."""
    counts = rows.groupby("ranks")["message_bytes"].transform("size")
    return rows[counts >= LEAST_SIZES]


def _graphs(rows: pd.DataFrame, _: str) -> pd.DataFrame:
    kept = rows[
        rows["allreduce_dtype"].isin(TWO_BYTES) & ~rows["backend"].astype(str).str.endswith(EAGER)
    ]
    return _named(kept, "allreduce_dtype")


def _library(rows: pd.DataFrame, _: str) -> pd.DataFrame:
    kept = rows[rows["nccl_dtype"].isin(TWO_BYTES) & (rows["op_name"] == "all_reduce")]
    return _named(kept, "nccl_dtype")


def _named(rows: pd.DataFrame, types: str) -> pd.DataFrame:
    return rows.assign(
        type=rows[types],
        ranks=rows["num_gpus"],
        message_bytes=ELEMENT_BYTES * column(rows, "message_size"),
    )
