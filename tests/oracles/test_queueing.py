"""Laws of queues that hold exactly for every drained run."""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from simulator.engine import simulate
from simulator.metrics import summarise
from simulator.records import RequestRecord
from simulator.request import Request
from tests.strategies import POLICIES, deployed, document, fitting_decode, fitting_trace, play

BATCH = {"max_batch": 3}


def mean_in_system(records: Sequence[RequestRecord]) -> float:
    """Requests in the system, averaged over time by walking through arrivals and finishes."""
    changes = sorted([(r.arrival_s, 1) for r in records] + [(r.finished_s, -1) for r in records])
    present, area = 0, 0.0
    for (time, change), (following, _) in pairwise(changes):
        present += change
        area += present * (following - time)
    return area / (changes[-1][0] - changes[0][0])


@pytest.mark.parametrize("policy", POLICIES)
def test_littles_law(policy: str) -> None:
    """On a drained run the time average in the system is arrival rate times mean time in it."""
    generator = np.random.default_rng(3)
    arrivals = np.cumsum(generator.exponential(0.02, 25))
    requests = [
        Request(i, int(generator.integers(5, 60)), int(generator.integers(2, 30)), arrival_s=t)
        for i, t in enumerate(arrivals.tolist())
    ]
    replica = play(deployed(document(policy), batching=BATCH), requests).replica

    metrics = summarise(replica.records)
    little = metrics["requests_per_s"] * metrics["latency_s"]["mean"]
    assert mean_in_system(list(replica.records.requests)) == pytest.approx(little, rel=1e-9)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_closed_system_holds_its_users(policy: str) -> None:
    """With equal rounds of requests, throughput times latency is the number of users, exactly."""
    metrics = summarise(simulate(deployed(document(policy, concurrency=4, requests=12))).records)

    users = metrics["requests_per_s"] * metrics["latency_s"]["mean"]
    assert users == pytest.approx(4, rel=1e-9)


@pytest.mark.parametrize("policy", [p for p in POLICIES if fitting_trace(p)])
def test_a_closed_system_holds_its_users_but_for_the_drain(policy: str) -> None:
    """With unequal rounds, users are missing only after the last request was sent."""
    decode = fitting_decode(policy, trace=fitting_trace(policy))
    replica = simulate(deployed(document(policy, decode, concurrency=4, requests=32)))

    metrics = summarise(replica.records)
    users = metrics["requests_per_s"] * metrics["latency_s"]["mean"]
    last_s = max(r.arrival_s for r in replica.records.requests)
    drain = 1 - last_s / metrics["simulated_s"]
    assert drain < 0.2
    assert 4 * (1 - drain) <= users <= 4


def test_one_server_follows_lindleys_recursion() -> None:
    """With a batch of one and equal requests, each wait follows from the one before it."""
    deployment = deployed(document("ar"), batching={"max_batch": 1})
    service_s = play(deployment, [Request(0, 30, 1)]).replica.records.requests[0].finished_s
    generator = np.random.default_rng(11)
    arrivals = np.cumsum(generator.exponential(service_s / 0.8, 200)).tolist()
    requests = [Request(i, 30, 1, arrival_s=t) for i, t in enumerate(arrivals)]

    records = play(deployment, requests).replica.records.requests

    waits, wait = [0.0], 0.0
    for before, after in pairwise(arrivals):
        wait = max(0.0, wait + service_s - (after - before))
        waits.append(wait)
    assert max(waits) > service_s
    found = [r.admitted_s - r.arrival_s for r in records]
    assert found == pytest.approx(waits, abs=1e-9 * arrivals[-1])
    assert all(math.isclose(r.finished_s - r.admitted_s, service_s, rel_tol=1e-6) for r in records)


def test_evenly_spaced_requests_never_wait() -> None:
    """When the next one comes after the last has left, nobody queues and all latencies agree."""
    deployment = deployed(document("ar"), batching={"max_batch": 1})
    alone_s = play(deployment, [Request(0, 30, 6)]).replica.records.requests[0].finished_s
    requests = [Request(i, 30, 6, arrival_s=1.01 * alone_s * i) for i in range(20)]

    records = play(deployment, requests).replica.records.requests

    assert all(r.admitted_s == r.arrival_s for r in records)
    assert [r.finished_s - r.arrival_s for r in records] == pytest.approx([alone_s] * 20, rel=1e-9)


def test_a_crowd_waits_one_service_time_per_round() -> None:
    """Twelve at once at a batch of three: the k-th three wait k whole services."""
    deployment = deployed(document("ar", concurrency=12), batching=BATCH)
    records = sorted(simulate(deployment).records.requests, key=lambda r: r.request)

    service_s = records[0].finished_s
    waits = [r.admitted_s for r in records]
    assert waits == pytest.approx([service_s * (i // 3) for i in range(12)], rel=1e-9)
