"""A table of seconds per piece of work that rises with the rows, out of noisy times."""

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from hwprofiles.fitting.search import Curve, Search, fit, significant
from hwprofiles.quantities import FloatArray

# Work takes at least this share of a time, even if what is fixed would explain it alone.
LEAST_SHARE = 0.2
NOTHING_YET = [1.0, 2.0]
"""Rows and times of a table that is still to be made."""
ROUNDS = 8
"""Of fitting parameters and table in turn; more change nothing."""


def rising_table(
    rows: FloatArray, pieces: FloatArray, seconds: FloatArray, fixed_s: FloatArray | float
) -> tuple[list[float], list[float]]:
    """(rows, seconds per piece) of times = fixed_s + pieces x table(rows), arrays of one length.

    Medians over the points of equal rows, those weighing most of which least is fixed, then
    made to rise by isotonic regression of the logarithms.
    """
    left = np.maximum(seconds - fixed_s, LEAST_SHARE * seconds)
    points = pd.DataFrame({"rows": rows, "log": np.log(left / pieces), "share": left / seconds})
    grouped = points.groupby("rows")
    medians = [_weighted_median(group) for _, group in grouped]
    rising = isotonic_regression(np.array(medians), weights=grouped.size().to_numpy(float))
    return (
        np.unique(rows).tolist(),
        [significant(value) for value in np.exp(rising.x)],
    )


def fit_with_table(
    curve: Curve,
    search: Mapping[str, Search],
    *,
    predict: Callable[[Curve], FloatArray],
    measured_s: FloatArray,
    tabulated: Callable[[Curve], Curve],
) -> Curve:
    """*curve*, the parameters of *search* fitted to its table and the table to them, in turn."""
    curve = tabulated(curve)
    for _ in range(ROUNDS):
        curve = tabulated(fit(curve, search, predict=predict, measured_s=measured_s))
    return curve


def _weighted_median(points: pd.DataFrame) -> float:
    ordered = points.sort_values("log")
    share = ordered["share"].cumsum() / ordered["share"].sum()
    return float(ordered["log"][share >= 0.5].iloc[0])  # noqa: PLR2004 (half)
