"""Steady state: whether a system under open load keeps up, or its queue only grows."""

import math
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

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
    if len(inside) >= LEAST_ARRIVALS:
        is_long = length_s >= LEAST_STAYS * stays.served_s
        states = {growth_state(waiting), growth_state(present) if is_long else "too short"}
        state = "growing" if "growing" in states else min(states, key=("too short", "steady").index)
    finishes = stays.finishes_s
    served = int(((finishes > begin_s) & (finishes <= end_s)).sum())
    offered_per_s, served_per_s = _rate(arrivals[inside]), served / length_s if length_s else 0.0
    return Steadiness(
        state,
        offered_per_s,
        served_per_s,
        int(present[-1]) if len(present) else 0,
        _sentence(state, offered_per_s, served_per_s),
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
    edges = np.linspace(0, len(in_system) - 1, PARTS + 1).round().astype(np.int64)
    gains = np.diff(in_system[edges])
    arrivals = len(in_system) - 1
    share = float(gains.sum()) / arrivals
    error = math.sqrt(PARTS) * float(gains.std(ddof=1)) / arrivals
    surely, likely = (float(stdtrit(PARTS - 1, c)) for c in (GROWING_CONFIDENCE, STEADY_CONFIDENCE))
    if share > max(GROWTH_SHARE, surely * error):
        return "growing"
    return "steady" if share + likely * error < EXCLUDED_SHARE else "too short"


def _sentence(state: State, offered_per_s: float, served_per_s: float) -> str:
    rates = f"offered {offered_per_s:.3g} req/s, served {served_per_s:.3g}"
    return {
        "growing": (
            f"overloaded: {rates}: the queue grew without bound, latencies depend on how long the "
            "run was"
        ),
        "steady": f"steady: {rates}",
        "too short": f"too short a run to tell whether it keeps up: {rates}",
    }[state]
