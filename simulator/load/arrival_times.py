"""Arrival times of generated loads, in endless chunks."""

from collections.abc import Iterator
from itertools import count

import numpy as np
import numpy.typing as npt

from simulator.load.streams import CHUNK_REQUESTS, Draw, stream

FloatArray = npt.NDArray[np.float64]


def renewal_times(seed: int, gaps_s: Draw) -> Iterator[FloatArray]:
    """Times after which independent gaps end, the first one from 0; [CHUNK_REQUESTS] each, in s."""
    now_s = 0.0
    for gaps in stream(seed, "arrivals", gaps_s):
        times = now_s + np.cumsum(gaps)
        now_s = float(times[-1])
        yield times


def even_times(rate_per_s: float) -> Iterator[FloatArray]:
    """0, 1/rate, 2/rate and so on, each rounded once; [CHUNK_REQUESTS] each, in s."""
    for chunk in count():
        yield (np.arange(CHUNK_REQUESTS) + chunk * CHUNK_REQUESTS) / rate_per_s
