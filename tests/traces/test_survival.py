"""The acceptance law by itself: closed forms, recovery of known parameters, and its limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.survival import Observation, SurvivalCurve, fit, power_for_mean


def tokens(curve: SurvivalCurve, n_drafts: int, tree_size: int | None = None) -> float:
    """Mean tokens of a step with one guaranteed token, term by term."""
    total = 1.0
    for j in range(1, n_drafts + 1):
        hazard = (j / curve.scale_drafts) ** curve.shape
        if tree_size is not None:
            hazard /= 1 + curve.branching * math.log(tree_size / j)
        total += math.exp(-hazard)
    return total


def test_hazard_by_hand() -> None:
    """Scale 2, shape 2: -ln S is 1/4, 1, 9/4; a tree of 3 e at branching 1 halves the third."""
    curve = SurvivalCurve(2.0, 2.0, 1.0)
    assert curve.cumulative_hazard(3) == pytest.approx([0.25, 1.0, 2.25])
    assert SurvivalCurve(2.0, 2.0, 1 / math.log(2)).cumulative_hazard(3, 6)[2] == pytest.approx(
        2.25 / 2
    )
    assert curve.cumulative_hazard(0).shape == (0,)


def test_a_tree_of_one_path_ends_as_the_chain_does() -> None:
    """With V = n the last draft has no siblings to spare."""
    curve = SurvivalCurve(3.0, 1.2, 0.3)
    chain, tree = curve.cumulative_hazard(7), curve.cumulative_hazard(7, 7)
    assert tree[-1] == chain[-1]
    assert np.all(tree[:-1] < chain[:-1])


@settings(deadline=None)
@given(alpha=st.floats(0.05, 0.95), drafts=st.integers(1, 20))
def test_shape_one_is_constant_acceptance(alpha: float, drafts: int) -> None:
    """Tokens per step are (1 - a^(k+1)) / (1 - a)."""
    curve = SurvivalCurve(-1 / math.log(alpha), 1.0, 0.0)
    mean = 1 + np.exp(-curve.cumulative_hazard(drafts)).sum()
    assert mean == pytest.approx((1 - alpha ** (drafts + 1)) / (1 - alpha))


@settings(deadline=None)
@given(
    scale=st.floats(0.5, 20.0),
    shape=st.floats(0.5, 1.8),
    branching=st.floats(0.05, 0.5),
)
def test_a_fit_returns_to_the_curve_that_made_the_means(
    scale: float, shape: float, branching: float
) -> None:
    """Means without noise are matched within a thousandth, wherever real decoders are."""
    truth = SurvivalCurve(scale, shape, branching)
    cells = [(4, None), (8, None), (16, None), (16, 32), (16, 60)]
    observations = [Observation(n, v, 1, tokens(truth, n, v)) for n, v in cells]
    found = fit(observations)
    assert np.abs(found.relative_errors(observations)).max() < 1e-3
    assert tokens(found, 12, 45) == pytest.approx(tokens(truth, 12, 45), rel=3e-3)


def test_one_chain_length_means_constant_acceptance() -> None:
    """A single mean cannot tell the shape, which stays 1."""
    alpha = 0.7
    found = fit([Observation(4, None, 1, (1 - alpha**5) / (1 - alpha))])
    assert (found.shape, found.branching) == (1.0, 0.0)
    assert math.exp(-1 / found.scale_drafts) == pytest.approx(alpha, abs=1e-6)


@settings(deadline=None)
@given(share=st.floats(0.001, 0.999), drafts=st.integers(1, 16))
def test_a_power_moves_the_sum_to_any_mean(share: float, drafts: int) -> None:
    """The sum of S_j^c is what was asked."""
    hazard = SurvivalCurve(3.0, 1.1, 0.0).cumulative_hazard(drafts)
    power = power_for_mean(hazard, share * drafts)
    assert np.exp(-hazard * power).sum() == pytest.approx(share * drafts, abs=1e-9)


def test_the_ends_of_the_power() -> None:
    """Every draft accepted is power 0, none is an infinite power, and no drafts is 0."""
    hazard = SurvivalCurve(3.0, 1.1, 0.0).cumulative_hazard(4)
    assert power_for_mean(hazard, 4.0) == 0.0
    assert power_for_mean(hazard, 0.0) == math.inf
    assert power_for_mean(hazard[:0], 0.0) == 0.0
