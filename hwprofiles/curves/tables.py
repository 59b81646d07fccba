"""What every table of times must be, never faster for more work, and how it is read."""

import itertools
from collections.abc import Sequence

import numpy as np

from hwprofiles.kernel_time import KernelTime
from hwprofiles.quantities import FloatArray

LEAST_ROWS = 2
MOST_NAMED = 5


def check_rising(
    size_name: str, sizes: Sequence[float], time_name: str, times: Sequence[float]
) -> None:
    """Raise ValueError, naming the rows that break it, unless sizes rise and times never fall."""
    if len(sizes) != len(times) or len(times) < LEAST_ROWS:
        rule = (
            f"{size_name} and {time_name} have as many entries, at least two, "
            f"got {len(sizes)} and {len(times)}"
        )
        raise ValueError(rule)
    pairs = list(zip(sizes, times, strict=True))
    steps = list(itertools.pairwise(pairs))
    disordered = [f"{low:g} before {high:g}" for (low, _), (high, _) in steps if high <= low]
    if disordered:
        rule = f"{size_name} rises from row to row, got {_some(disordered)}"
        raise ValueError(rule)
    falling = [
        f"{low:g} to {high:g} ({before:g} s to {after:g} s)"
        for (low, before), (high, after) in steps
        if after < before
    ]
    if falling:
        rule = f"{time_name} never goes down as {size_name} goes up, but does from {_some(falling)}"
        raise ValueError(rule)


def between_rows(sizes: FloatArray, known: Sequence[float], times: Sequence[float]) -> FloatArray:
    """Times at *sizes*, linear between rows in the logarithms; flat below and above the table."""
    found: FloatArray = np.exp(np.interp(np.log(sizes), np.log(known), np.log(times)))
    return found


def in_proportion_above(
    sizes: FloatArray, known: Sequence[float], times: Sequence[float]
) -> FloatArray:
    """As `between_rows`, but above the table in proportion to the size."""
    return between_rows(sizes, known, times) * np.maximum(sizes / known[-1], 1.0)


def tabulated_product(  # noqa: PLR0913 (what a product is)
    seconds: FloatArray,
    rows: FloatArray,
    weights: FloatArray,
    *,
    launch_s: float,
    flop_per_s: float,
    weight_s: float,
) -> KernelTime:
    """A dense product whose *seconds* are tabulated; what has no *rows* costs nothing.

    Reading one of the *weights* takes *weight_s*. The fastest kernels seen, which *flop_per_s* and
    *weight_s* are of, may beat what a table says of a size.
    """
    present = rows > 0
    return KernelTime(
        seconds=seconds,
        compute_s=np.minimum(seconds, 2.0 * rows * weights / flop_per_s),
        memory_s=np.minimum(seconds, np.where(present, weights * weight_s, 0.0)),
        link_s=np.zeros(seconds.shape),
        launch_s=np.where(present, launch_s, 0.0),
    )


def _some(words: Sequence[str]) -> str:
    more = len(words) - MOST_NAMED
    return ", ".join(words[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
