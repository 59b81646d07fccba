"""What iterations of a request share: against scipy, plain loops, and laws with closed forms."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from traces.columns import IntArray
from traces.dependence import (
    clustered_standard_error,
    intraclass_correlation,
    lag_1_correlation,
    spread_ratio,
)

Groups = list[list[int]]
groups = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=6), min_size=1, max_size=6)


def flat(values: Groups) -> tuple[IntArray, IntArray]:
    """Values, and the number of the group of each; numbers need not follow one another."""
    request = [3 * n for n, mine in enumerate(values) for _ in mine]
    return np.array([each for mine in values for each in mine]), np.array(request)


def test_by_hand() -> None:
    """Means 1 and 3 of three and one: 3 between, 1 within, 5/3 in all, groups of 1.5."""
    values, request = flat([[2, 0, 1], [3]])
    assert intraclass_correlation(values, request) == pytest.approx((3 - 1) / (3 + 0.5))
    assert spread_ratio(values, request) == pytest.approx(math.sqrt(3 / (5 / 3)))
    # Sums 3 and 3, where the mean 1.5 gives 4.5 and 1.5.
    expected = math.sqrt(2 * (1.5**2 + 1.5**2)) / 4
    assert clustered_standard_error(values, request) == pytest.approx(expected)
    # The pairs (2, 0) and (0, 1).
    assert lag_1_correlation(values, request) == pytest.approx(-1.0)


@given(groups)
def test_the_analysis_of_variance_is_scipys(values: Groups) -> None:
    """The ratio of mean squares is the F of a one-way test, whatever the sizes."""
    flat_values, request = flat(values)
    found = intraclass_correlation(flat_values, request)
    within = any(len(set(mine)) > 1 for mine in values)
    if not within:
        constant = len({each for mine in values for each in mine}) == 1
        alone = len(values) == 1 or all(len(mine) == 1 for mine in values)
        assert found == (None if constant or alone else 1.0)
        return
    assume(len(values) > 1)
    ratio = float(stats.f_oneway(*values).statistic)
    n, k = len(flat_values), len(values)
    size = (n - sum(len(mine) ** 2 for mine in values) / n) / (k - 1)
    assert found == pytest.approx((ratio - 1) / (ratio + size - 1))
    total = np.var(flat_values, ddof=1)
    between = sum(len(m) * (np.mean(m) - flat_values.mean()) ** 2 for m in values) / (k - 1)
    assert spread_ratio(flat_values, request) == pytest.approx(math.sqrt(between / total))


@given(groups)
def test_successive_pairs_are_those_of_a_loop(values: Groups) -> None:
    """Pairs do not reach from one request into the next; Pearson's coefficient is scipy's."""
    pairs = [pair for mine in values for pair in itertools.pairwise(mine)]
    first, second = ([pair[n] for pair in pairs] for n in (0, 1))
    found = lag_1_correlation(*flat(values))
    if len(set(first)) <= 1 or len(set(second)) <= 1:
        assert found is None
    else:
        assert found == pytest.approx(stats.pearsonr(first, second).statistic)


@given(groups)
def test_the_clustered_error_is_a_loop_over_requests(values: Groups) -> None:
    """Residuals are added up within a request before they are squared."""
    flat_values, request = flat(values)
    if len(values) == 1:
        assert clustered_standard_error(flat_values, request) is None
        return
    mean = flat_values.mean()
    squares = sum((sum(mine) - mean * len(mine)) ** 2 for mine in values)
    expected = math.sqrt(len(values) / (len(values) - 1) * squares) / len(flat_values)
    assert clustered_standard_error(flat_values, request) == pytest.approx(expected)


def test_nothing_has_no_dependence() -> None:
    """Without values there is nothing to tell."""
    nothing = np.zeros(0, dtype=np.int64)
    for tell in (intraclass_correlation, spread_ratio, clustered_standard_error, lag_1_correlation):
        assert tell(nothing, nothing) is None


def test_requests_of_two_kinds_share_a_known_variance() -> None:
    """One draft at p of 0.2 or 0.8: 0.09 of a variance of 0.25 is between, and between pairs."""
    generator = np.random.default_rng(1)
    p = np.repeat([0.2, 0.8], 400)
    drawn = (generator.random((800, 50)) < p[:, None]).astype(np.int64)
    values, request = drawn.ravel(), np.repeat(np.arange(800), 50)
    assert intraclass_correlation(values, request) == pytest.approx(0.36, abs=0.02)
    assert lag_1_correlation(values, request) == pytest.approx(0.36, abs=0.02)
    # The variance of a mean of 50 is (0.16 / 50 + 0.09), of independent ones 0.25 / 50.
    expected = math.sqrt((0.16 / 50 + 0.09) / (0.25 / 50))
    assert spread_ratio(values, request) == pytest.approx(expected, rel=0.03)


def test_a_chain_that_stays_is_correlated_from_step_to_step() -> None:
    """A two-state Markov chain that stays with 0.9 has a lag-1 correlation of 0.8."""
    generator = np.random.default_rng(2)
    changes = generator.random((200, 200)) < 0.1
    start = generator.integers(0, 2, (200, 1))
    values = ((np.cumsum(changes, axis=1) + start) % 2).ravel()
    request = np.repeat(np.arange(200), 200)
    assert lag_1_correlation(values, request) == pytest.approx(0.8, abs=0.01)


def test_independent_iterations_have_nothing_in_common() -> None:
    """Draws of one law: no correlation, a ratio of 1, and the plain standard error."""
    values = np.random.default_rng(3).binomial(7, 0.6, 40_000)
    request = np.repeat(np.arange(1000), 40)
    assert intraclass_correlation(values, request) == pytest.approx(0.0, abs=0.01)
    assert lag_1_correlation(values, request) == pytest.approx(0.0, abs=0.02)
    assert spread_ratio(values, request) == pytest.approx(1.0, rel=0.05)
    plain = math.sqrt(7 * 0.6 * 0.4 / 40_000)
    assert clustered_standard_error(values, request) == pytest.approx(plain, rel=0.05)
