"""Tally: the distribution of any number of values in bounded memory."""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

PERCENTILES = (50, 90, 95, 99)
MOST_EXACT = 2**18
"""Values up to which percentiles are exact."""
RELATIVE_ERROR = 1e-3
"""Of a percentile beyond that, for values from LEAST to MOST."""
LEAST, MOST = 1e-9, 1e9
BUFFER_VALUES = 8192
# Buckets whose middle is off by RELATIVE_ERROR at either end (Masson et al. 2019, DDSketch).
_LOG_RATIO = math.log((1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR))
_BUCKETS = math.ceil(math.log(MOST / LEAST) / _LOG_RATIO) + 1


def distribution(values: Sequence[float] | FloatArray) -> dict[str, float] | None:
    """Mean and percentiles (linear between order statistics) of *values*; None without any."""
    if len(values) == 0:
        return None
    array = np.asarray(values, dtype=float)
    levels = np.percentile(array, PERCENTILES)
    named = {f"p{p}": float(level) for p, level in zip(PERCENTILES, levels, strict=True)}
    return {"mean": float(array.mean())} | named


class Tally:
    """Counts values that are not negative; their mean, least and most are exact.

    Percentiles are exact up to *most_exact* values. Beyond, the values are in buckets of equal
    width of their logarithm, and percentiles are off by RELATIVE_ERROR at most.
    """

    def __init__(self, most_exact: int = MOST_EXACT) -> None:
        """Start with none."""
        self._most_exact = most_exact
        self._count = 0
        self._sum = 0.0
        self._least, self._most = math.inf, -math.inf
        self._buffer = np.empty(BUFFER_VALUES)
        self._buffered = 0
        self._exact: list[FloatArray] = []
        self._buckets: IntArray | None = None

    def add(self, values: FloatArray) -> None:
        """Count *values*, a flat array."""
        begin, n_values = 0, len(values)
        while begin < n_values:
            taken = min(n_values - begin, BUFFER_VALUES - self._buffered)
            after = self._buffered + taken
            self._buffer[self._buffered : after] = values[begin : begin + taken]
            self._buffered, begin = after, begin + taken
            if after == BUFFER_VALUES:
                self._flush()

    def __len__(self) -> int:
        """Values so far."""
        return self._count + self._buffered

    @property
    def is_exact(self) -> bool:
        """Whether percentiles are exact."""
        self._flush()
        return self._buckets is None

    @property
    def total(self) -> float:
        """Sum of the values."""
        self._flush()
        return self._sum

    @property
    def least(self) -> float | None:
        """The smallest value; None without any."""
        self._flush()
        return self._least if self._count else None

    @property
    def most(self) -> float | None:
        """The largest value; None without any."""
        self._flush()
        return self._most if self._count else None

    def distribution(self, zeros: int = 0) -> dict[str, float] | None:
        """Mean and percentiles as `distribution` has them, of the values and so many *zeros*.

        None without values.
        """
        self._flush()
        count = self._count + zeros
        if not count:
            return None
        if self._buckets is None and not zeros:
            return distribution(np.concatenate(self._exact))
        named = {"mean": self._sum / count}
        found = self._order_statistics([p / 100 * (count - 1) - zeros for p in PERCENTILES])
        return named | {f"p{p}": level for p, level in zip(PERCENTILES, found, strict=True)}

    def _order_statistics(self, ranks: Sequence[float]) -> list[float]:
        """Values at *ranks* from 0 on, linear between whole ones; a rank below zero is a zero."""
        low = np.floor(np.array(ranks)).astype(np.int64)
        high = np.ceil(np.array(ranks)).astype(np.int64)
        wanted = np.unique(np.clip(np.concatenate([low, high]), 0, max(self._count - 1, 0)))
        value = dict(zip(wanted.tolist(), self._at(wanted).tolist(), strict=True))
        return [
            float(a + (b - a) * (rank - floor))
            for rank, floor, ceiling in zip(ranks, low.tolist(), high.tolist(), strict=True)
            for a, b in [(value.get(floor, 0.0), value.get(ceiling, 0.0))]
        ]

    def _at(self, ranks: IntArray) -> FloatArray:
        """The values at whole *ranks* of the sorted values."""
        if not self._count:
            return np.zeros(len(ranks))
        if self._buckets is None:
            return np.partition(np.concatenate(self._exact), ranks)[ranks]
        bucket = np.searchsorted(np.cumsum(self._buckets), ranks, side="right")
        middle = LEAST * np.exp(bucket * _LOG_RATIO) * (1 - RELATIVE_ERROR)
        inside: FloatArray = np.clip(middle, self._least, self._most)
        return inside

    def _flush(self) -> None:
        if not self._buffered:
            return
        values = self._buffer[: self._buffered].copy()
        self._count += len(values)
        self._buffered = 0
        self._sum += float(values.sum())
        self._least = min(self._least, float(values.min()))
        self._most = max(self._most, float(values.max()))
        if self._buckets is None:
            self._exact.append(values)
            if self._count > self._most_exact:
                self._buckets = _counted(np.concatenate(self._exact))
                self._exact.clear()
        else:
            self._buckets += _counted(values)


def _counted(values: FloatArray) -> IntArray:
    """How many *values* lie in each bucket; bucket b ends at LEAST times the ratio to the b."""
    place = np.ceil(np.log(np.maximum(values, LEAST) / LEAST) / _LOG_RATIO).astype(np.int64)
    return np.bincount(np.minimum(place, _BUCKETS - 1), minlength=_BUCKETS)
