"""Reading the measured tables, and splitting off the points that no fit may see."""

import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import FloatArray

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
NOT_YET_JUDGED = Residual(median=0.0, p90=0.0, points=0)


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


def held_out(table: pd.DataFrame, keys: list[str]) -> npt.NDArray[np.bool_]:
    """Which rows the fit may not see; rows that agree in *keys* go together, on any machine."""
    names = table[keys].astype(str).agg(" ".join, axis=1)
    chosen = {name: zlib.crc32(name.encode()) % HELD_OUT_IN == 0 for name in names.unique()}
    return names.map(chosen).to_numpy(dtype=np.bool_)


def residual(predicted_s: npt.ArrayLike, measured_s: npt.ArrayLike) -> Residual:
    """Median and 90th percentile of |predicted/measured - 1|, to four decimals."""
    errors = np.abs(np.asarray(predicted_s) / np.asarray(measured_s) - 1.0)
    return Residual(
        median=round(float(np.median(errors)), 4),
        p90=round(float(np.quantile(errors, 0.9)), 4),
        points=int(errors.size),
    )


def column(table: pd.DataFrame, name: str) -> FloatArray:
    """A column as floats."""
    return table[name].to_numpy(dtype=np.float64)


def span(values: npt.ArrayLike) -> tuple[float, float]:
    """The least and the greatest of *values*."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.min()), float(array.max())


def fitted(text: str) -> Source:
    """A source that says a fit was made, and to what."""
    return Source(kind="fitted", text=text)
