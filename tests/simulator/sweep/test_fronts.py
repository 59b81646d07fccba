"""Fronts against dominance by its definition."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from simulator.sweep.design import Front
from simulator.sweep.fronts import Fronts, on_front
from tests.simulator.sweep.points import sweep_of

# Few distinct values, so that ties and equal points are common.
POINTS = st.tuples(st.integers(1, 40), st.integers(1, 3)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(-3, 3).map(float))
)


@given(POINTS)
def test_nothing_on_it_is_dominated(values: np.ndarray) -> None:
    """A point is on the front when no other is as good everywhere and better somewhere."""
    expected = [
        not any(np.all(other >= own) and np.any(other > own) for other in values) for own in values
    ]
    assert on_front(values).tolist() == expected


def test_repeats_count_by_their_mean() -> None:
    """Of two points with two seeds each the one with the better mean is on the front."""
    fronts = Fronts({"f": Front(higher=("speed",), lower=("cost",))}, ("decode.block",))
    rows = [(4, 1.0, 2.0), (4, 5.0, 2.0), (8, 2.0, 2.0), (8, 3.0, 2.0), (16, 1.0, None)]
    for block, speed, cost in rows:
        fronts.take({"decode.block": block, "speed": speed, "cost": cost})
    (member,) = fronts.members()["f"]
    assert member.group == (4,)
    assert member.means == {"speed": 3.0, "cost": 2.0}


def test_members_come_best_first() -> None:
    """By the first column of the front, whichever way that is better."""
    fronts = Fronts({"f": Front(lower=("cost", "wait"))}, ("name",))
    for name, cost, wait in (("dear", 3.0, 1.0), ("cheap", 1.0, 3.0), ("worse", 3.0, 3.0)):
        fronts.take({"name": name, "cost": cost, "wait": wait})
    assert [member.group for member in fronts.members()["f"]] == [("cheap",), ("dear",)]


@pytest.mark.parametrize("price", [None, 2.5])
def test_the_second_front_needs_a_price(tmp_path: Path, price: float | None) -> None:
    """Throughput against speed is always there, cost against latency where GPUs cost something."""
    names = ["throughput-speed"] + ([] if price is None else ["cost-latency"])
    assert list(sweep_of(tmp_path, gpu_hour_cost=price).fronts) == names
