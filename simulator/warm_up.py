"""Warm-up: how many of the first values of a run do not stand for the rest."""

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

BATCH_VALUES = 5
LEAST_BATCHES = 10
MOST_SHARE = 0.5
"""Of a run, that the warm-up may take."""
ROUNDING = 1e-14
"""Of the values' squares; variance below it is none."""


def warm_up_values(values: FloatArray) -> int:
    """How many values from the first on belong to the warm-up, by the rule MSER-5.

    Means of five values each; as many of the first ones are left out as make the estimated
    variance of the mean of the others least (White 1997; White, Cobb and Spratt 2000). At most half
    of the run; none when it has fewer than fifty values.
    """
    n_batches = len(values) // BATCH_VALUES
    if n_batches < LEAST_BATCHES:
        return 0
    means = values[: n_batches * BATCH_VALUES].reshape(n_batches, BATCH_VALUES).mean(axis=1)
    least = ROUNDING * float(np.square(means).sum())
    # The variance is that of differences, which must not drown in a common offset.
    means = (means - means.mean())[::-1]
    left = np.arange(1, n_batches + 1)
    squares = np.cumsum(means**2) - np.cumsum(means) ** 2 / left
    by_left_out = (np.maximum(squares, least) / left**2)[::-1]
    most = int(n_batches * MOST_SHARE)
    return int(np.argmin(by_left_out[: most + 1])) * BATCH_VALUES
