"""The warm-up rule against its definition, and on series whose warm-up is known."""

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.warm_up import warm_up_values


def by_definition(values: npt.NDArray[np.float64]) -> int:
    """MSER-5 with a loop: the truncation with the least squares over the square of what is left."""
    batches = [float(np.mean(values[i : i + 5])) for i in range(0, len(values) - 4, 5)]
    if len(batches) < 10:
        return 0

    def statistic(left_out: int) -> float:
        rest = np.array(batches[left_out:])
        return float(((rest - rest.mean()) ** 2).sum()) / len(rest) ** 2

    return 5 * min(range(len(batches) // 2 + 1), key=statistic)


@given(st.integers(0, 400), st.integers(0, 2**32 - 1))
def test_it_is_the_rule(n_values: int, seed: int) -> None:
    """Random series are cut where the definition says."""
    values = np.random.default_rng(seed).exponential(1.0, n_values)

    assert warm_up_values(values) == by_definition(values)


@pytest.mark.parametrize("length", [20, 100, 235])
def test_a_transient_is_cut_where_it_ends(length: int) -> None:
    """Values that climb and then stay level lose the climb, to a batch."""
    noise = np.random.default_rng(2).normal(0, 0.01, 1000)
    values = np.minimum(np.arange(1000) / length, 1.0) + noise

    assert length - 5 <= warm_up_values(values) <= length + 25


def test_level_values_have_no_warm_up() -> None:
    """Rounding of equal values is no reason to leave any out."""
    clock = np.cumsum(np.full(5000, 0.1))

    assert warm_up_values(clock + 3.3 - clock) == 0
    assert warm_up_values(np.zeros(100)) == 0


def test_at_most_half_is_left_out() -> None:
    """A series that never settles keeps its second half."""
    assert warm_up_values(np.arange(1000.0)) == 500


def test_few_values_are_all_kept() -> None:
    """Fewer than ten batches say nothing."""
    assert warm_up_values(np.array([100.0] * 5 + [1.0] * 44)) == 0
