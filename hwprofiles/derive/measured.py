"""Reading the measured tables."""

from pathlib import Path

import pandas as pd

MICROSECOND_S = 1e-6
# Below these the replays of a benchmark find their operands in the 50 MB L2, unlike a model.
COLD_WEIGHT_BYTES = 12e6
COLD_BYTES = 60e6
# One group of points in this many is kept out of the fit.
HELD_OUT_IN = 6
COLLECTION = (
    "AIConfigurator silicon collection (NVIDIA), commit 095f58a: vllm 0.24.0, sglang 0.5.14, "
    "trtllm 1.3.0rc20"
)


class MissingTableError(ValueError):
    """A measured table that a fit needs is not in the folder."""


def read_table(folder: Path, name: str) -> pd.DataFrame:
    """The table *name*.csv of *folder*; raises MissingTableError naming the path if absent."""
    path = folder / f"{name}.csv"
    if not path.is_file():
        rule = f"no measured table {path}; --measured needs the folder that holds {name}.csv"
        raise MissingTableError(rule)
    return pd.read_csv(path, low_memory=False)


def median_over_frameworks(table: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """One row per combination of *keys*, with the median of its times as `seconds`."""
    medians = table.groupby(keys, sort=True)["latency_us"].median().reset_index()
    return medians.assign(seconds=medians["latency_us"] * MICROSECOND_S)
