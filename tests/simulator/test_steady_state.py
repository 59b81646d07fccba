"""Whether a queue is seen to grow, on queues whose load is known."""

from collections import Counter

import numpy as np
import numpy.typing as npt
import pytest

from simulator.steady_state import Stays, Steadiness, steadiness
from simulator.warm_up import warm_up_values

FloatArray = npt.NDArray[np.float64]


def queue(load: float, n_requests: int, seed: int, *, exponential: bool = True) -> Stays:
    """A single server that takes 1 s in the mean, first come first served.

    Lindley's recursion without a loop: a finish is the services so far, and the longest that the
    server has been without work.
    """
    generator = np.random.default_rng([seed, int(100 * load)])
    arrivals = np.cumsum(generator.exponential(1 / load, n_requests))
    services = generator.exponential(1.0, n_requests) if exponential else np.ones(n_requests)
    worked = np.cumsum(services)
    finishes = worked + np.maximum.accumulate(arrivals - worked + services)
    return Stays(arrivals, finishes - services, finishes)


def states(
    load: float, n_requests: int, runs: int = 100, *, exponential: bool = True
) -> Counter[str]:
    """How often each state is told of so many runs, the warm-up left out."""
    told: Counter[str] = Counter()
    for seed in range(runs):
        told[of_queue(queue(load, n_requests, seed, exponential=exponential)).state] += 1
    return told


def of_queue(stays: Stays) -> Steadiness:
    """What is told of a queue, the warm-up left out."""
    arrivals = stays.arrivals_s
    begin = float(arrivals[warm_up_values(stays.finishes_s - arrivals)])
    return steadiness(stays, begin, float(arrivals[-1]))


@pytest.mark.parametrize("load", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("exponential", [True, False])
@pytest.mark.parametrize("n_requests", [1000, 10_000])
def test_a_queue_that_keeps_up_is_never_called_growing(
    load: float,
    n_requests: int,
    exponential: bool,  # noqa: FBT001 (a parameter)
) -> None:
    """Of a thousand runs at load 0.95 two were; of ten thousand requests all are called steady."""
    told = states(load, n_requests, exponential=exponential)

    assert told["growing"] <= 2
    if n_requests == 10_000:
        assert told["steady"] >= 97


@pytest.mark.parametrize("load", [1.1, 1.3, 2.0])
@pytest.mark.parametrize("exponential", [True, False])
def test_a_queue_that_cannot_keep_up_is_called_growing(load: float, exponential: bool) -> None:  # noqa: FBT001
    """Of ten thousand requests, at 10 % too many nearly always; none of them is called steady."""
    told = states(load, 10_000, exponential=exponential)

    assert told["growing"] >= 94
    assert told["steady"] == 0


def test_a_heavy_overload_shows_early() -> None:
    """Twice too many are seen after 300 requests; a tenth too many are not, nor called steady."""
    assert states(2.0, 300)["growing"] >= 97
    assert states(1.1, 300)["steady"] <= 2


def test_at_the_brink_few_are_called_growing() -> None:
    """Exactly as many as can be served: the t-test's confidence bounds the false alarms."""
    assert states(1.0, 3000)["growing"] <= 6


def test_what_an_overload_is_called() -> None:
    """Twelve a second of which nine are served: the rates, and what follows."""
    arrivals = np.arange(1, 12_001) / 12
    finishes = np.arange(1, 12_001) / 9

    stays = Stays(arrivals, finishes - 1 / 9, finishes)
    found = steadiness(stays, float(arrivals[0]), float(arrivals[-1]))

    assert found.state == "growing"
    assert found.offered_per_s == pytest.approx(12, rel=1e-9)
    assert found.served_per_s == pytest.approx(9, rel=1e-3)
    assert found.in_system_at_end == 3000
    assert found.sentence == (
        "overloaded: offered 12 req/s, served 9: the queue grew without bound, latencies depend on "
        "how long the run was"
    )


def test_evenly_spaced_requests_that_are_served_are_steady() -> None:
    """One a second, each there for half a second: nobody is left when the next one comes."""
    arrivals = np.arange(500.0)

    found = steadiness(Stays(arrivals, arrivals, arrivals + 0.5), 0.0, 499.0)

    assert found.state == "steady"
    assert found.in_system_at_end == 1
    assert found.offered_per_s == 1.0
    assert found.served_per_s == pytest.approx(1.0, rel=2e-3)


def test_a_batch_that_fills_up_is_no_overload() -> None:
    """A thousand are admitted as they come and stay long: more and more, but nobody waits."""
    arrivals = np.arange(1000.0)
    filling = Stays(arrivals, arrivals, arrivals + 300.0)
    # The same with a batch of 200: whoever comes later waits for a place.
    admitted = arrivals + 0.5 * np.maximum(arrivals - 200, 0)
    full = Stays(arrivals, admitted, admitted + 300.0)

    assert steadiness(filling, 0.0, 999.0).state == "too short"
    assert steadiness(full, 0.0, 999.0).state == "growing"


@pytest.mark.parametrize(
    ("n_requests", "begin_s", "stay_s", "enough"),
    [(99, 0.0, 0.5, 100), (50, 0.0, 0.5, 100), (500, 101.0, 100.0, 630)],
)
def test_a_short_run_says_nothing(
    n_requests: int, begin_s: float, stay_s: float, enough: int
) -> None:
    """Fewer than a hundred arrivals, or less than five stays, are too short to tell.

    Of 500 requests 398 s are measured, five stays are 500 s: 628 requests do, 630 in two figures.
    """
    arrivals = np.arange(float(n_requests))

    stays = Stays(arrivals, arrivals, arrivals + stay_s)
    found = steadiness(stays, begin_s, float(arrivals[-1]))

    assert found.state == "too short"
    assert found.enough_requests == enough
    assert found.sentence.startswith("too short a run to tell whether it keeps up: offered 1 req/s")
    assert found.sentence.endswith(f"; about {enough} requests would do")


@pytest.mark.parametrize(("load", "state"), [(0.5, "steady"), (0.8, "steady"), (1.3, "growing")])
def test_as_many_requests_as_are_named_tell(load: float, state: str) -> None:
    """Runs of 300 are too short often; of as many as they ask for, nine in ten are told right."""
    told: Counter[str] = Counter()
    for seed in range(60):
        short = of_queue(queue(load, 300, seed))
        if short.state == "too short":
            assert short.enough_requests is not None
            assert 300 <= short.enough_requests <= 50_000
            told[of_queue(queue(load, short.enough_requests, seed + 1000)).state] += 1

    assert sum(told.values()) >= 20
    assert told[state] >= 0.9 * sum(told.values())


def test_a_run_that_tells_asks_for_no_more() -> None:
    """A verdict needs no more requests."""
    assert of_queue(queue(0.5, 10_000, 1)).enough_requests is None


def test_one_request_or_none() -> None:
    """A window without length has no rates."""
    one = steadiness(Stays(np.array([3.0]), np.array([3.0]), np.array([5.0])), 3.0, 3.0)
    none = steadiness(Stays(np.array([]), np.array([]), np.array([])), 0.0, 0.0)

    assert (one.state, one.offered_per_s, one.served_per_s) == ("too short", 0.0, 0.0)
    assert (one.in_system_at_end, none.in_system_at_end) == (1, 0)
