"""Spaces: what is drawn lies in them, as often as is said."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.sweep.spaces import Choices, Interval, space_of

DRAWS = 4000


def draws(space: Any, count: int = DRAWS) -> list[Any]:
    generator = np.random.default_rng(0)
    checked = space_of(space)
    return [checked.draw(generator) for _ in range(count)]


@given(st.integers(-50, 50), st.integers(0, 60), st.integers(1, 20))
def test_whole_numbers_in_steps(low: int, width: int, step: int) -> None:
    """Every value is one of range's, and every one of range's comes up."""
    wanted = range(low, low + width + 1, step)
    found = draws({"low": low, "high": low + width, "step": step}, 1500)
    assert set(found) <= set(wanted)
    if len(wanted) <= 60:
        assert set(found) == set(wanted)
    assert all(type(value) is int for value in found)


def test_whole_numbers_are_as_likely() -> None:
    """Six values, each a sixth of the draws within five standard deviations."""
    found = draws({"low": 1, "high": 6})
    deviation = math.sqrt(DRAWS * (1 / 6) * (5 / 6))
    for value in range(1, 7):
        assert abs(found.count(value) - DRAWS / 6) < 5 * deviation


@given(st.integers(1, 9), st.integers(1, 30))
def test_steps_of_tenths_reach_the_high_end(tenths: int, steps: int) -> None:
    """The last value is the high end, written as a person would: 0.3, not 0.30000000000000004."""
    step = tenths / 10
    high = float(Fraction(tenths * steps, 10))
    space = space_of({"low": 0.0, "high": high, "step": step})
    assert isinstance(space, Interval)
    assert space.last_step == steps
    written = [space.at_step(number) for number in range(steps + 1)]
    assert written == [float(Fraction(tenths * number, 10)) for number in range(steps + 1)]


def test_a_step_that_does_not_divide_stops_below_the_high_end() -> None:
    """From 1 by 4 to 10: 1, 5 and 9."""
    assert set(draws({"low": 1, "high": 10, "step": 4})) == {1, 5, 9}


def test_ratios_are_as_likely() -> None:
    """On a log scale a third of the draws of 1 to 1000 lies in each factor of ten."""
    found = draws({"low": 1.0, "high": 1000.0, "log": True})
    deviation = math.sqrt(DRAWS * (1 / 3) * (2 / 3))
    for low in (1, 10, 100):
        inside = sum(low <= value < 10 * low for value in found)
        assert abs(inside - DRAWS / 3) < 5 * deviation
    assert all(1 <= value <= 1000 for value in found)


def test_whole_numbers_on_a_log_scale() -> None:
    """Both ends come up, nothing beyond them, and small numbers come more often."""
    found = draws({"low": 1, "high": 64, "log": True})
    assert min(found) == 1
    assert max(found) == 64
    assert found.count(1) > found.count(8) > found.count(48)


def test_ends_that_are_equal_are_one_value() -> None:
    """An interval may be a single number, of either kind."""
    assert set(draws({"low": 3, "high": 3}, 9)) == {3}
    assert set(draws({"low": 0.5, "high": 0.5}, 9)) == {0.5}
    assert set(draws({"low": 3, "high": 3, "log": True}, 9)) == {3}


def test_choices_may_be_anything() -> None:
    """Texts, mappings and nothing at all are values."""
    values = ["a", {"policy": "ar"}, None, [1]]
    assert all(value in values for value in draws(values, 50))
    assert len({str(value) for value in draws(values, 200)}) == 4


@pytest.mark.parametrize(
    ("values", "is_ordered"),
    [
        *(((1, 2, 8), True), ((0.5, 0.25), True), ((1, 3, 2), False), ((1, 1), False)),
        *((("a", "b"), False), ((True, 2), False), ((4,), False), ((1, None), False)),
    ],
)
def test_numbers_that_rise_or_fall_are_ordered(values: tuple[Any, ...], is_ordered: bool) -> None:  # noqa: FBT001
    """An optimizer may take neighbours for alike then, and only then."""
    assert Choices(values).is_ordered is is_ordered


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ([], "at least one"),
        (3, "a list of values, or low and high"),
        ({"low": 1}, "high: a required field is missing"),
        ({"low": 3, "high": 1}, "low is at most high, got 3 and 1"),
        ({"low": 0, "high": 3, "log": True}, "log needs low above zero"),
        ({"low": -1.0, "high": 3.0, "log": True}, "log needs low above zero"),
        ({"low": 1, "high": 3, "log": True, "step": 1}, "no step"),
        ({"low": 1, "high": 3, "step": 0.5}, "a step of whole numbers is whole"),
        ({"low": 1, "high": 3, "step": 0}, "step: must be greater than 0"),
        ({"low": 0.0, "high": 1.0, "step": 1e-300}, "too small a step"),
        ({"low": True, "high": 3}, "low: must be a number"),
        ({"low": float("nan"), "high": 3.0}, "low: must be a number"),
        ({"low": 0, "high": 10**30}, "high: must be a number from -1e+18 to 1e+18"),
        ({"low": "1", "high": 3}, "low: must be a number"),
        ({"low": 1, "hihg": 3}, "did you mean high"),
    ],
)
def test_a_space_without_values_is_told(space: Any, words: str) -> None:
    """Each kind of mistake, in words."""
    with pytest.raises(ValueError, match=words.replace("+", r"\+")):
        space_of(space)
