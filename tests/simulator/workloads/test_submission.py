"""Submission on arrival: when the clock says, in order, whoever is still there."""

import simpy
from hypothesis import given
from hypothesis import strategies as st

from simulator.arrivals import submit_on_arrival
from simulator.request import Request


def submitted(arrivals_s: list[float]) -> list[tuple[float, Request]]:
    """Clock and request of each submission."""
    environment, told = simpy.Environment(), list[tuple[float, Request]]()

    def submit(request: Request) -> simpy.Event:
        told.append((environment.now, request))
        return environment.event()

    made = (Request(index, 5, 6, arrival_s=at) for index, at in enumerate(arrivals_s))
    submit_on_arrival(environment, made, submit)
    environment.run()
    return told


@given(st.lists(st.floats(0, 1e6), max_size=30))
def test_requests_are_submitted_when_they_arrive(arrivals_s: list[float]) -> None:
    """In order, each with its own time, at that time to a rounding and never before."""
    arrivals_s.sort()

    told = submitted(arrivals_s)

    assert [request.index for _, request in told] == list(range(len(arrivals_s)))
    for (now, request), at in zip(told, arrivals_s, strict=True):
        assert request.arrival_s == at
        assert 0 <= now - at <= 1e-15 * at


def test_many_at_one_instant_are_submitted_at_once() -> None:
    """Requests of the same instant take no time from one to the next."""
    assert [now for now, _ in submitted([0.0, 0.0, 2.5, 2.5, 2.5])] == [0.0, 0.0, 2.5, 2.5, 2.5]


def test_nobody_waits_for_an_answer() -> None:
    """Requests arrive although none is ever finished."""
    assert len(submitted([float(second) for second in range(100)])) == 100
