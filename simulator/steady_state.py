"""Steady state: whether a system under open load keeps up, or its queue only grows."""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from simulator.quantities import three_figures

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]
State = Literal["steady", "growing", "too short"]

PARTS: Final = 20
LEAST_ARRIVALS: Final = 100
LEAST_STAYS: Final = 5
"""So many times as long as a request is served the window must last to show a steady state."""
GROWTH_SHARE: Final = 0.02
"""Of the arrivals; a system that gains fewer than that keeps up for all purposes."""
GROWING_CONFIDENCE: Final = 0.99
EXCLUDED_SHARE: Final = 0.05
"""Of the arrivals; growth beyond it must be excluded before a system is called steady."""
STEADY_CONFIDENCE: Final = 0.95
EDGES: Final = " (less by those who were under way when the window ended)"
SPARE: Final = 2.0
"""Times as many requests as a verdict takes are named, since another draw is a worse one."""


@dataclass(frozen=True)
class Steadiness:
    """What arrivals and finishes inside a window say."""

    state: State
    offered_per_s: float
    """Arrivals, over the time from the first to the last one in the window."""
    served_per_s: float
    """Finishes inside the window, over its length."""
    in_system_at_end: int
    """Requests waiting or being served at the last arrival."""
    sentence: str
    enough_requests: int | None = None
    """About how many requests would tell, where these are too few."""
    growth_share: float | None = None
    """By how much of the arrivals in the window the system grew; None in too short a window."""


@dataclass(frozen=True)
class Stays:
    """When requests came, were admitted to a batch and left; rejected ones at once. [requests]."""

    arrivals_s: FloatArray
    admissions_s: FloatArray
    finishes_s: FloatArray

    @property
    def served_s(self) -> float:
        """How long a request is served in the median."""
        served = self.finishes_s - self.admissions_s
        return float(np.median(served)) if len(served) else 0.0


def steadiness(stays: Stays, begin_s: float, end_s: float) -> Steadiness:
    """Whether more and more requests are there, from the first arrival in the window to the last.

    The arrivals are cut into twenty equal parts. What the system gains in a part is arrivals less
    finishes; under overload these gains are positive and nearly independent of one another, in a
    system that keeps up they cancel. It is growing when a t-test on them says so and the gain is
    more than 2 % of the arrivals; steady when they exclude 5 %. A batch that fills up at first is
    no overload: only those who wait for admission are counted until the window has five stays.
    """
    arrivals = np.sort(stays.arrivals_s)
    inside = np.flatnonzero((arrivals >= begin_s) & (arrivals <= end_s))
    length_s = end_s - begin_s
    present = _present(arrivals, stays.finishes_s)[inside]
    waiting = _present(arrivals, stays.admissions_s)[inside]
    state: State = "too short"
    stays_s = LEAST_STAYS * stays.served_s
    is_long = length_s >= stays_s
    if len(inside) >= LEAST_ARRIVALS:
        states = {growth_state(waiting), growth_state(present) if is_long else "too short"}
        state = "growing" if "growing" in states else min(states, key=("too short", "steady").index)
    enough = None
    if state == "too short":
        longer = stays_s / length_s if length_s else 1.0
        enough = _enough(len(arrivals), longer, waiting, present)
    finishes = stays.finishes_s
    served = int(((finishes > begin_s) & (finishes <= end_s)).sum())
    offered_per_s, served_per_s = _rate(arrivals[inside]), served / length_s if length_s else 0.0
    return Steadiness(
        state,
        offered_per_s,
        served_per_s,
        int(present[-1]) if len(present) else 0,
        _sentence(state, offered_per_s, served_per_s, enough),
        enough,
        _gain(present)[0] if is_long and len(inside) >= LEAST_ARRIVALS else None,
    )


def _rate(times_s: FloatArray) -> float:
    """Events per second, from the first to the last; zero where they are one."""
    span_s = float(times_s[-1] - times_s[0]) if len(times_s) else 0.0
    return (len(times_s) - 1) / span_s if span_s else 0.0


def _present(arrivals_s: FloatArray, ends_s: FloatArray) -> IntArray:
    """At each of the ordered arrivals, itself included, how many have come and not ended."""
    ended = np.searchsorted(np.sort(ends_s), arrivals_s, side="right")
    present: IntArray = np.arange(1, len(arrivals_s) + 1) - ended
    return present


def growth_state(in_system: IntArray) -> State:
    """What the numbers in the system at consecutive arrivals say of its growth."""
    share, surely, likely = _gain(in_system)
    if share > max(GROWTH_SHARE, surely):
        return "growing"
    return "steady" if share + likely < EXCLUDED_SHARE else "too short"


def _gain(in_system: IntArray) -> tuple[float, float, float]:
    """Gain as a share of the arrivals, and how far off it is, by the two confidences."""
    edges = np.linspace(0, len(in_system) - 1, PARTS + 1).round().astype(np.int64)
    gains = np.diff(in_system[edges])
    arrivals = len(in_system) - 1
    error = math.sqrt(PARTS) * float(gains.std(ddof=1)) / arrivals
    surely, likely = (float(stdtrit(PARTS - 1, c)) for c in (GROWING_CONFIDENCE, STEADY_CONFIDENCE))
    return float(gains.sum()) / arrivals, surely * error, likely * error


def _enough(n_requests: int, longer: float, *in_system: IntArray) -> int:
    """About how many requests the rules need, of whom *n_requests* were too few.

    The window must be *longer* times as long, hold the least arrivals, and tell by each of the
    numbers *in_system*. The error of the gain falls with the root of the number of requests. If the
    gain stays the number that it is, more requests make it too small a share to be growth; if it
    stays the share that it is, growth shows: what comes first is taken.
    """
    n_inside = len(in_system[0])
    factors = [longer, LEAST_ARRIVALS / max(1, n_inside)]
    if n_inside > PARTS:
        factors += [_more(each) for each in in_system]
    needed = max(1.0, *factors) * max(n_requests, 1)
    step = 10.0 ** max(0, math.floor(math.log10(needed)) - 1)
    return max(LEAST_ARRIVALS, int(math.ceil(needed / step) * step))


def _more(in_system: IntArray) -> float:
    """Times as many requests at which the numbers tell; 1 where they tell already."""
    share, surely, likely = _gain(in_system)
    # r times as many: share / r + likely / sqrt(r) = EXCLUDED_SHARE, a square of 1 / sqrt(r).
    gained = max(share, 0.0)
    root = (likely + math.sqrt(likely**2 + 4 * gained * EXCLUDED_SHARE)) / (2 * EXCLUDED_SHARE)
    if share > GROWTH_SHARE:
        root = min(root, surely / share)
    return max(1.0, SPARE * root**2)


def _sentence(state: State, offered_per_s: float, served_per_s: float, enough: int | None) -> str:
    offered, served = three_figures(offered_per_s), three_figures(served_per_s)
    rates = f"offered {offered} req/s, served {served}"
    is_less = offered != served and served_per_s < offered_per_s
    return {
        "growing": (
            f"overloaded: {rates}: the queue grew without bound, latencies depend on how long the "
            "run was"
        ),
        "steady": f"steady: {rates}{EDGES if is_less else ''}",
        "too short": (
            f"too short a run to tell whether it keeps up: {rates}; "
            f"about {enough} requests would do"
        ),
    }[state]
