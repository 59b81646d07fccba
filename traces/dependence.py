"""How much the iterations of one request have in common, which independent draws would not.

Values are given with the request of each, both [iterations], the iterations of a request in order
and together. What cannot be told is None: without several requests, or without any variance.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traces.columns import IntArray


@dataclass(frozen=True)
class MeanSquares:
    """One-way analysis of variance of values in groups of unequal sizes."""

    between: float
    """Of group means about the mean, each by its size: sum n_i (m_i - m)^2 / (k - 1)."""
    within: float
    """Of values about their group's mean: the sum of squares / (N - k)."""
    total: float
    """Of values about the mean: the sum of squares / (N - 1)."""
    group_size: float
    """(N - sum n_i^2 / N) / (k - 1), the size of the groups where they are equal."""


def lag_1_correlation(values: IntArray, request: IntArray) -> float | None:
    """Pearson's, over all pairs of successive iterations of a request.

    Requests are not centred each on its own mean, so what differs between them counts as well.
    """
    pair = request[1:] == request[:-1]
    first, second = values[:-1][pair], values[1:][pair]
    if len(first) == 0 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def intraclass_correlation(values: IntArray, request: IntArray) -> float | None:
    """Share of the variance that lies between requests, by the one-way ANOVA estimator.

    (between - within) / (between + (group size - 1) within); by chance it may lie below 0.
    """
    found = _mean_squares(values, request)
    if found is None:
        return None
    of = found.between + (found.group_size - 1.0) * found.within
    return (found.between - found.within) / of


def spread_ratio(values: IntArray, request: IntArray) -> float | None:
    """Standard deviation of a request's mean, over what it is where iterations are independent.

    Requests weigh by their iterations: sqrt(between / total), 1 in expectation if they are.
    """
    found = _mean_squares(values, request)
    return None if found is None else math.sqrt(found.between / found.total)


def clustered_standard_error(values: npt.ArrayLike, request: IntArray) -> float | None:
    """Of the mean of all *values*, requests being independent but not their iterations.

    The ratio estimator's, linearised: sqrt(k / (k - 1) sum_i (sum of i - m n_i)^2) / N.
    """
    groups, of, sizes = np.unique(request, return_inverse=True, return_counts=True)
    if len(groups) <= 1:
        return None
    weights = np.asarray(values, dtype=np.float64)
    residual = np.bincount(of, weights) - weights.mean() * sizes
    squares = float((residual**2).sum()) * len(groups) / (len(groups) - 1)
    return math.sqrt(squares) / len(of)


def _mean_squares(values: IntArray, request: IntArray) -> MeanSquares | None:
    """None without two groups, without a group of two, and where all values are one."""
    groups, of, sizes = np.unique(request, return_inverse=True, return_counts=True)
    total, k = len(values), len(groups)
    if k <= 1 or total == k or np.ptp(values) == 0:
        return None
    means = np.bincount(of, values) / sizes
    between = float((sizes * (means - values.mean()) ** 2).sum())
    within = float(((values - means[of]) ** 2).sum())
    return MeanSquares(
        between=between / (k - 1),
        within=within / (total - k),
        total=(between + within) / (total - 1),
        group_size=(total - float((sizes**2).sum()) / total) / (k - 1),
    )
