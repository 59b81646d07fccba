"""Draws that follow from a key alone: whoever asks, in whatever order, draws the same.

The mixing function is SplitMix64 (Steele, Lea, Flood, 2014: Fast splittable pseudorandom number
generators), which passes the usual statistical batteries on consecutive keys.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.schedule import IntArray

_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_FIRST: Final = np.uint64(0xBF58476D1CE4E5B9)
_SECOND: Final = np.uint64(0x94D049BB133111EB)


def below(limit: int | IntArray, *key: int | IntArray) -> IntArray:
    """A whole number from 0 up to *limit* for every key; the parts of *key* broadcast.

    The bias of taking a remainder is below limit / 2^64.
    """
    state = np.zeros(np.broadcast_shapes(*map(np.shape, key)), dtype=np.uint64)
    # Overflow is what the function is made of.
    with np.errstate(over="ignore"):
        for part in key:
            state = _mixed(state + np.asarray(part).astype(np.uint64) + _GOLDEN)
    drawn: IntArray = (state % np.asarray(limit).astype(np.uint64)).astype(np.int64)
    return drawn


def _mixed(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    mixed: npt.NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed
