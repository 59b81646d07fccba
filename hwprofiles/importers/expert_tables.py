"""Mixture-of-experts modules of the package's tables."""

from functools import partial

import numpy as np
import pandas as pd

from hwprofiles.fitting.judging import column
from hwprofiles.importers.collected import BF16, SOURCE, Collection, Found, Table

PARALLEL = ("moe_tp_size", "moe_ep_size")
MOE = Table(
    "moe",
    "moe_perf",
    ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", *PARALLEL),
    "moe_dtype",
    (BF16, "fp8", "fp8_block"),
    labels=("distribution",),
)
BALANCED = "balanced"
NONGATED = "nongated"
"""In the name of kernels of two matrices; a decoder's experts have three."""
TYPES = {"bf16": (BF16,), "fp8": ("fp8_block", "fp8")}
"""The first that was measured is taken."""
MOST_TENSOR_PARALLEL = 4
HOW = (
    f"balanced routing, ep 1, tp <= {MOST_TENSOR_PARALLEL}; median over frameworks, of what all of "
    "them measured"
)


def experts(collection: Collection) -> list[Found]:
    """Modules of bf16 and fp8 weights, balanced routing, without expert parallelism."""
    return [found for precision in TYPES for found in _experts(collection, precision)]


def _experts(collection: Collection, precision: str) -> list[Found]:
    for name in TYPES[precision]:
        choose = partial(_choose, name=name)
        rows, told = collection.medians("moe", MOE, choose, is_common=True)
        if len(rows):
            return [Found("moe", precision, rows, f"{told}; {name}, {HOW}")]
    return []


def _choose(rows: pd.DataFrame, _: str, *, name: str) -> pd.DataFrame:
    kept = rows[
        (rows["moe_dtype"] == name)
        & (rows["distribution"] == BALANCED)
        & (rows["moe_ep_size"] == 1)
        & (rows["moe_tp_size"] <= MOST_TENSOR_PARALLEL)
        & ~rows[SOURCE].str.contains(NONGATED)
    ]
    return kept.assign(
        type=kept["moe_dtype"],
        tokens=kept["num_tokens"],
        active_experts=np.minimum(
            column(kept, "num_experts"), column(kept, "topk") * column(kept, "num_tokens")
        ),
        hidden=kept["hidden_size"],
        expert_ffn=column(kept, "inter_size") / column(kept, "moe_tp_size"),
        top_k=kept["topk"],
        experts=kept["num_experts"],
    )
