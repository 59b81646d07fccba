"""Splitting off the points that no fit may see, and what a curve is off on them."""

import zlib

import numpy as np
import numpy.typing as npt
import pandas as pd

from hwprofiles.provenance import Residual, Source
from hwprofiles.quantities import FloatArray

NOT_YET_JUDGED = Residual(median=0.0, p90=0.0, points=0)


def held_out(table: pd.DataFrame, keys: list[str], *, one_in: int) -> npt.NDArray[np.bool_]:
    """Which rows the fit may not see; rows that agree in *keys* go together, on any machine."""
    names = table[keys].astype(str).agg(" ".join, axis=1)
    chosen = {name: zlib.crc32(name.encode()) % one_in == 0 for name in names.unique()}
    return names.map(chosen).to_numpy(dtype=np.bool_)


def residual(predicted_s: npt.ArrayLike, measured_s: npt.ArrayLike) -> Residual:
    """Median and 90th percentile of |predicted/measured - 1|, to four decimals."""
    errors = np.abs(np.asarray(predicted_s) / np.asarray(measured_s) - 1.0)
    if errors.size == 0:
        return NOT_YET_JUDGED
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
