"""Routers: which replica a request goes to."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator import routers
from simulator.request import Request

loads = st.lists(st.integers(0, 50), min_size=1, max_size=9)


@pytest.mark.parametrize("name", routers.names())
@given(loads=loads, index=st.integers(0, 1000), turn=st.integers(0, 1000))
def test_every_router_names_a_replica(name: str, loads: list[int], index: int, turn: int) -> None:
    """Whatever the loads, the choice is one of the replicas, and the same when asked again."""
    request = Request(index, 8, 8, seed=3)

    choices = {routers.router(name).choose(loads, request, turn) for _ in range(2)}

    assert len(choices) == 1
    assert choices <= set(range(len(loads)))


def test_round_robin_takes_turns() -> None:
    """Seven requests go to three replicas in order."""
    router = routers.router("round-robin")

    chosen = [router.choose([9, 0, 0], Request(i, 1, 1), i) for i in range(7)]

    assert chosen == [0, 1, 2, 0, 1, 2, 0]


@given(loads=loads)
def test_least_loaded_takes_the_first_of_the_emptiest(loads: list[int]) -> None:
    """It is the smallest load, at its first place."""
    chosen = routers.router("least-loaded").choose(loads, Request(0, 1, 1), 5)

    assert chosen == loads.index(min(loads))


def test_power_of_two_never_takes_the_fullest_and_draws_pairs_evenly() -> None:
    """Of four replicas with loads 0 to 3, the k-th emptiest wins against those that are fuller.

    A pair out of six is drawn evenly, so they win 3, 2, 1 and 0 of six times.
    """
    router = routers.router("power-of-two")

    chosen = Counter(router.choose([3, 1, 0, 2], Request(i, 1, 1), i) for i in range(6000))

    # Five standard deviations of a binomial count around 3000.
    assert chosen[2] == pytest.approx(3000, abs=200)
    assert chosen[1] == pytest.approx(2000, abs=200)
    assert chosen[3] == pytest.approx(1000, abs=150)
    assert chosen[0] == 0


def test_an_unknown_router_is_a_key_error() -> None:
    """Names that are no module of the folder are refused."""
    with pytest.raises(KeyError):
        routers.router("random")
