"""Verdict: whether runs with several seeds keep the objectives, noise considered."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from scipy.special import stdtrit

from simulator.plan.objective import Objective
from simulator.plan.trial import Outcome
from simulator.steady_state import (
    EXCLUDED_SHARE,
    GROWING_CONFIDENCE,
    GROWTH_SHARE,
    STEADY_CONFIDENCE,
)

CONFIDENCE: Final = 0.95
"""One-sided, that the mean over seeds is on the right side of a limit."""
CONFIDENCE_OF_A_LOOK: Final = 0.985
"""Of the interval at each number of seeds. Up to six are looked at, and the first that decides ends
it: together they err as often as CONFIDENCE says.
"""

Answer = Literal["met", "missed", "undecided"]


@dataclass(frozen=True)
class Estimate:
    """The value of an objective: mean over seeds, and how far off it may be."""

    objective: Objective
    mean: float | None
    """None where the metric does not exist in such a run; no limit of it is broken then."""
    half_width: float
    """Of the one-sided interval; zero where all seeds agree."""

    @property
    def answer(self) -> Answer:
        """Whether the limit is kept, with confidence."""
        if self.mean is None or self.objective.margin(self._worst) >= 0:
            return "met"
        return "missed" if self.objective.margin(self._best) < 0 else "undecided"

    @property
    def margin(self) -> float:
        """Share of the limit that is left, by the mean."""
        return math.inf if self.mean is None else self.objective.margin(self.mean)

    @property
    def _worst(self) -> float:
        return self._off(-1 if self.objective.is_floor else 1)

    @property
    def _best(self) -> float:
        return self._off(1 if self.objective.is_floor else -1)

    def _off(self, sign: int) -> float:
        return (self.mean or 0.0) + sign * self.half_width


@dataclass(frozen=True)
class Verdict:
    """What the runs of several seeds say of all objectives together."""

    estimates: tuple[Estimate, ...]
    outcomes: tuple[Outcome, ...]
    """A run each, the scenario's own seed first."""
    ignores_state: bool = False
    """A trace is all the load there is: its objectives alone count, not what a queue would do."""

    @property
    def refused(self) -> str:
        """Why there is no run; empty where there is."""
        return next((each.refused for each in self.outcomes if each.refused), "")

    @property
    def state(self) -> str:
        """What the runs together say of their queues: steady, growing or too short.

        As `run` says it of one, by its own parts; of several, each is a part. Where windows are too
        short for that, they grow only if most of the runs say so by themselves.
        """
        if self.ignores_state:
            return "steady"
        if len(self.outcomes) == 1:
            return self.outcomes[0].state
        shares = [outcome.growth_share for outcome in self.outcomes]
        known = np.array([share for share in shares if share is not None])
        if len(known) < len(shares):
            growing = sum(outcome.state == "growing" for outcome in self.outcomes)
            return "growing" if 2 * growing > len(shares) else "too short"
        error = float(known.std(ddof=1)) / math.sqrt(len(known))
        surely, likely = (
            float(stdtrit(len(known) - 1, confidence)) * error
            for confidence in (GROWING_CONFIDENCE, STEADY_CONFIDENCE)
        )
        if float(known.mean()) > max(GROWTH_SHARE, surely):
            return "growing"
        return "steady" if float(known.mean()) + likely < EXCLUDED_SHARE else "too short"

    @property
    def is_exact(self) -> bool:
        """Whether several seeds agree to the last digit, so that no more of them are needed."""
        return len(self.outcomes) > 1 and not any(each.half_width for each in self.estimates)

    @property
    def breaks_a_limit(self) -> bool:
        """Whether a limit is missed, whatever the queue does."""
        return any(estimate.answer == "missed" for estimate in self.estimates)

    @property
    def answer(self) -> Answer:
        """Missed where one limit is, or the queue grows; met where all are."""
        if self.refused or self.state == "growing" or self.breaks_a_limit:
            return "missed"
        is_open = any(estimate.answer == "undecided" for estimate in self.estimates)
        return "undecided" if is_open or self.state == "too short" else "met"

    @property
    def is_met(self) -> bool:
        """Whether the objectives are kept, with confidence."""
        return self.answer == "met"

    @property
    def tightest(self) -> Estimate:
        """The objective with the least room."""
        return min(self.estimates, key=lambda estimate: estimate.margin)


def verdict(
    objectives: Sequence[Objective], outcomes: Sequence[Outcome], *, ignores_state: bool = False
) -> Verdict:
    """The verdict of *outcomes*, one or more, which differ by seed alone."""
    is_refused = any(outcome.refused for outcome in outcomes)
    estimates = () if is_refused else tuple(_estimates(objectives, outcomes))
    return Verdict(estimates, tuple(outcomes), ignores_state)


def _estimates(objectives: Sequence[Objective], outcomes: Sequence[Outcome]) -> list[Estimate]:
    return [
        _estimate(objective, [outcome.values[objective.name] for outcome in outcomes])
        for objective in objectives
    ]


def _estimate(objective: Objective, values: Sequence[float | None]) -> Estimate:
    """Mean and interval by Student's t; one value has no interval."""
    known = np.array([value for value in values if value is not None])
    if not len(known):
        return Estimate(objective, None, 0.0)
    mean = float(known.mean())
    if len(known) == 1 or not math.isfinite(mean) or known.min() == known.max():
        return Estimate(objective, mean, 0.0)
    quantile = float(stdtrit(len(known) - 1, CONFIDENCE_OF_A_LOOK))
    return Estimate(objective, mean, quantile * float(known.std(ddof=1)) / math.sqrt(len(known)))
