"""Measure: which part of a run counts, and the words that say so."""

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, ConfigDict

from simulator.documents import shown
from simulator.quantities import seconds_of, three_figures
from simulator.records import RunRecords
from simulator.warm_up import warm_up_values

FloatArray = npt.NDArray[np.float64]

WHOLE: Final = (
    "whole run: from the first arrival to the last finish, prefill, start and drain included"
)
REST: Final = "counts, steps and times between emissions are the whole run's"
LEAST_FINISHES: Final = 20
"""Inside a window that is to stand for a load."""
MOST_EXACT_S: Final = 99_999.5
"""Later times are told in whole seconds."""


def _warm_up(value: object) -> str | float:
    if isinstance(value, str) and value in {"auto", "none"}:
        return value
    try:
        return seconds_of(value)
    except ValueError as error:
        message = f"auto, none or a time: seconds above zero, or as 90s, got {shown(value)}"
        raise ValueError(message) from error


@dataclass(frozen=True)
class Measure:
    """What of a run under open load is left out of the metrics; a closed one counts whole."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    warm_up: Annotated[str | float, BeforeValidator(_warm_up)] = "auto"
    """Left out at the start: found by the rule MSER-5, nothing, or so many seconds."""
    drain: Literal["exclude", "include"] = "exclude"
    """What comes after the last arrival."""


@dataclass(frozen=True)
class Window:
    """A stretch of the simulated clock, both ends included."""

    begin_s: float
    end_s: float
    sentence: str
    is_whole: bool = False

    @property
    def length_s(self) -> float:
        """Seconds."""
        return self.end_s - self.begin_s

    def has(self, times_s: FloatArray) -> npt.NDArray[np.bool_]:
        """Which of *times_s* lie inside."""
        inside: npt.NDArray[np.bool_] = (times_s >= self.begin_s) & (times_s <= self.end_s)
        return inside

    def per_s(self, amount: float) -> float:
        """*amount* over the length; zero in a window without length."""
        return amount / self.length_s if self.length_s > 0 else 0.0


def arrivals_s(records: RunRecords) -> FloatArray:
    """When every request arrived, rejected ones too, in order."""
    both = (records.requests.column("arrival_s"), records.rejected.column("arrival_s"))
    return np.sort(np.concatenate(both))


def whole_run(records: RunRecords, why: str = "") -> Window:
    """From the first arrival to the last finish."""
    arrivals = arrivals_s(records)
    ends = np.concatenate([records.requests.column("finished_s"), arrivals[-1:]])
    if not len(arrivals):
        return Window(0.0, 0.0, WHOLE + why, is_whole=True)
    return Window(float(arrivals[0]), float(ends.max()), WHOLE + why, is_whole=True)


def window_of(records: RunRecords, measure: Measure, *, is_closed: bool) -> Window:
    """What counts of a run: all of it under closed load, else what *measure* leaves.

    Under open load that is from the end of the warm-up to the last arrival. All of the run when too
    few requests finish in that.
    """
    if is_closed or not len(records.requests):
        return whole_run(records)
    arrivals = arrivals_s(records)
    finishes = records.requests.column("finished_s")
    first, last, end = float(arrivals[0]), float(arrivals[-1]), float(finishes.max())
    begin = first + warm_up_s(records, measure)
    stop = last if measure.drain == "exclude" else max(last, end)
    part = Window(begin, stop, "")
    measured = int(part.has(records.requests.column("arrival_s")).sum())
    if not measured or int(part.has(finishes).sum()) < LEAST_FINISHES:
        return whole_run(records, f"; fewer than {LEAST_FINISHES} requests finish in a part of it")
    early = int((arrivals < begin).sum())
    left_out = [
        _left_out("warm-up", begin - first, f"{early} requests", _how(measure)),
        _left_out("drain", end - stop, "what finished after the last arrival", "")
        if measure.drain == "exclude"
        else "drain included",
    ]
    left_out.append(REST)
    return Window(begin, stop, f"{_clock(begin)} s to {_clock(stop)} s: {'; '.join(left_out)}")


def warm_up_s(records: RunRecords, measure: Measure) -> float:
    """Seconds from the first arrival that do not count."""
    if isinstance(measure.warm_up, float):
        return measure.warm_up
    if measure.warm_up == "none":
        return 0.0
    arrivals = records.requests.column("arrival_s")
    order = np.argsort(arrivals, kind="stable")
    latencies = (records.requests.column("finished_s") - arrivals)[order]
    return float(arrivals[order][warm_up_values(latencies)] - arrivals_s(records)[0])


def _clock(time_s: float) -> str:
    """A time in seconds, with six figures at most and no exponent."""
    return f"{time_s:.6g}" if time_s < MOST_EXACT_S else f"{time_s:.0f}"


def _how(measure: Measure) -> str:
    return " by MSER-5" if measure.warm_up == "auto" else ""


def _left_out(what: str, seconds: float, of_it: str, how: str) -> str:
    if seconds <= 0:
        return f"no {what}{how}"
    return f"{what} of {three_figures(seconds)} s ({of_it}) left out{how}"
