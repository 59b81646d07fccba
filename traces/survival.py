"""SurvivalCurve: how likely the first j drafts of a step are all accepted, fitted to means.

The form is a Weibull law. A tree of V drafts divides its cumulative hazard by a factor that grows
with the logarithm of V / j, the drafts that a path of j could have on each of its levels:

    S_j = exp(-H_j),   H_j = (j / scale)^shape / (1 + branching ln(V / j)),   a chain has V = j

A shape of 1 is the textbook constant acceptance a = exp(-1 / scale); above 1 each further draft is
less likely to be accepted than the one before, below 1 more likely (steps differ: those that got
far are the easy ones). Mean tokens per step are guaranteed + S_1 + ... + S_n. Acceptance falling
as exp(-d i) or i^-d, and beta and log-logistic laws, fit the published chains less well; a factor
V^branching, or one with V in place of V / j, fits the published trees less well.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq, least_squares

FloatArray = npt.NDArray[np.float64]

# Logarithms of scale, shape and branching: start, and bounds far outside any decoder.
_START = np.array([1.0, 0.0, -1.5])
_LOWEST = np.array([-5.0, -2.0, -10.0])
_HIGHEST = np.array([12.0, 2.0, 5.0])
_LARGEST_LOG_POWER = 40.0


@dataclass(frozen=True)
class Observation:
    """Mean tokens of a step with *n_drafts* in a row, of which some are guaranteed."""

    n_drafts: int
    tree_size: int | None
    guaranteed_tokens: int
    tokens_per_step: float


@dataclass(frozen=True)
class SurvivalCurve:
    """The Weibull law above; all three parameters are positive and have no unit but drafts."""

    scale_drafts: float
    shape: float
    branching: float

    def cumulative_hazard(self, n_drafts: int, tree_size: int | None = None) -> FloatArray:
        """-ln S_1 .. -ln S_n; rises along the run, falls with *tree_size* (at least n)."""
        drafts = np.arange(1, n_drafts + 1, dtype=np.float64)
        chain: FloatArray = (drafts / self.scale_drafts) ** self.shape
        if tree_size is None:
            return chain
        return chain / (1.0 + self.branching * np.log(tree_size / drafts))

    def relative_errors(self, observations: Sequence[Observation]) -> FloatArray:
        """(predicted - observed) / observed tokens per step, one per observation."""
        predicted = [
            o.guaranteed_tokens + np.exp(-self.cumulative_hazard(o.n_drafts, o.tree_size)).sum()
            for o in observations
        ]
        return np.asarray(predicted) / [o.tokens_per_step for o in observations] - 1.0


def fit(observations: Sequence[Observation]) -> SurvivalCurve:
    """The curve with the least squared relative error in tokens per step.

    What the observations cannot tell stays at its default: shape 1 (constant acceptance) with a
    single chain length, no branching without trees.
    """
    chains = {o.n_drafts for o in observations if o.tree_size is None and o.n_drafts > 0}
    has_trees = any(o.tree_size is not None for o in observations)
    free = np.array([True, len(chains) > 1, has_trees])

    def curve(parameters: FloatArray) -> SurvivalCurve:
        logs = _START.copy()
        logs[free] = parameters
        scale, shape, branching = np.exp(logs).tolist()
        return SurvivalCurve(scale, shape, branching if has_trees else 0.0)

    def errors(parameters: FloatArray) -> FloatArray:
        return curve(parameters).relative_errors(observations)

    solution = least_squares(errors, _START[free], bounds=(_LOWEST[free], _HIGHEST[free]))
    return curve(solution.x)


def power_for_mean(hazard: FloatArray, accepted_drafts: float) -> float:
    """The power c with sum(S_j^c) = *accepted_drafts*, where S_j = exp(-hazard_j)."""

    def excess(log_power: float) -> float:
        return float(np.exp(-hazard * math.exp(log_power)).sum()) - accepted_drafts

    if excess(-_LARGEST_LOG_POWER) <= 0.0:
        return 0.0
    if excess(_LARGEST_LOG_POWER) >= 0.0:
        return math.inf
    return math.exp(brentq(excess, -_LARGEST_LOG_POWER, _LARGEST_LOG_POWER, xtol=1e-13))
