"""Measured points in one form, whoever measured them: the sizes of a kernel and its seconds."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.fitting.judging import column
from hwprofiles.quantities import FloatArray

SIZES: Mapping[str, tuple[str, ...]] = {
    "gemm": ("m", "n", "k"),
    "lm_head": ("m", "n", "k"),
    "attention_extend": (
        "sequences",
        "query_tokens",
        "kv_tokens",
        "query_heads",
        "kv_heads",
        "head_dim",
    ),
    "attention_prefill": (
        "sequences",
        "query_tokens",
        "kv_tokens",
        "query_heads",
        "kv_heads",
        "head_dim",
    ),
    "moe": ("tokens", "active_experts", "hidden", "expert_ffn", "top_k", "experts"),
    "elementwise": ("bytes_moved", "row_bytes"),
    "all_reduce": ("message_bytes", "ranks"),
}
"""The columns that describe a point of each kernel, named as its cost curve's inputs."""


@dataclass(frozen=True)
class Points:
    """Rows of sizes (columns as in SIZES) and `seconds`; which ones a fit may not see."""

    table: pd.DataFrame
    unseen: npt.NDArray[np.bool_]
    judged: npt.NDArray[np.bool_] | None = None
    """Which of the unseen the curve is judged on; all of them when None."""

    @property
    def seen(self) -> pd.DataFrame:
        """The rows a fit is made to."""
        return self.table[~self.unseen]

    @property
    def judges(self) -> pd.DataFrame:
        """The rows a curve is judged on."""
        return self.table[self.unseen if self.judged is None else self.unseen & self.judged]


def seconds(table: pd.DataFrame) -> FloatArray:
    """The measured times."""
    return column(table, "seconds")
