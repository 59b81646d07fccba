"""The fewest servers of M/D/c within a limit on the wait: a plan's against the exact distribution.

A replica with a batch of one and requests of equal, constant service is a server. Customers of a
first-come first-served queue with constant service leave in the order in which they came, so c
servers are taken in turn: it is the queue that round robin over c replicas makes.
"""

import math
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import integrate, optimize, stats

from simulator.execution.pool import ThisProcess
from simulator.plan.evaluation import Effort
from simulator.plan.objective import Objective
from simulator.plan.plan import Candidate, Question, plan
from simulator.request import Request
from tests.strategies import deployed, document, play

FloatArray = npt.NDArray[np.float64]

PROMPT = 64
ONE_AT_A_TIME = {"max_batch": 1}
CLEAR = 1.15
"""Times by which both neighbours of the edge lie off the limit, at least."""


@cache
def in_system(load: float, servers: int) -> FloatArray:
    """P(L = i): whoever is there a service later is who was not served by now, and who came since.

    From the chain L' = max(L - c, 0) + Poisson(load), cut off where nobody gets.
    """
    states = math.ceil(servers + 40 * (1 + 1 / (servers - load)))
    came = stats.poisson.pmf(np.arange(states), load)
    chain = np.zeros((states, states))
    for state in range(states):
        left = max(state - servers, 0)
        chain[state, left:] = came[: states - left]
    chain[:, -1] += 1 - chain.sum(axis=1)
    balance = np.vstack([chain.T - np.eye(states), np.ones(states)])
    found: FloatArray = np.linalg.lstsq(balance, np.append(np.zeros(states), 1.0), rcond=None)[0]
    return found


def waits_at_most(wait: float, load: float, servers: int) -> float:
    """P(W <= wait), in services (Franx, 2001)."""
    at_most = np.minimum(np.cumsum(in_system(load, servers)), 1.0)
    k = math.floor(wait) + 1
    terms = np.arange(k * servers)
    places = np.minimum(servers + k * servers - 1 - terms, len(at_most) - 1)
    # The weights of the sum are those of Poisson arrivals in the time that is left.
    weights = stats.poisson.pmf(terms, load * (k - wait))
    return float((weights * at_most[places]).sum())


def wait(statistic: str, load: float, servers: int) -> float:
    """The mean or a percentile of the wait, in services; for ever where the queue grows."""
    if load >= servers:
        return math.inf
    if statistic == "mean":
        present = in_system(load, servers)
        waiting = np.maximum(np.arange(len(present)) - servers, 0)
        return float((present * waiting).sum()) / load  # Little's law
    level = float(statistic[1:]) / 100
    if waits_at_most(0.0, load, servers) >= level:
        return 0.0
    return float(optimize.brentq(lambda w: waits_at_most(w, load, servers) - level, 0.0, 100.0))


def fewest(statistic: str, load: float, limit: float) -> int:
    """The least number of servers within the limit."""
    return next(c for c in range(1, 100) if wait(statistic, load, c) <= limit)


@pytest.mark.parametrize("load", [0.3, 0.7, 0.9])
def test_one_server_is_m_d_1(load: float) -> None:
    """The mean is rho / (2 (1 - rho)), and nobody waits with probability 1 - rho."""
    assert wait("mean", load, 1) == pytest.approx(load / (2 * (1 - load)), rel=1e-6)
    assert waits_at_most(0.0, load, 1) == pytest.approx(1 - load, rel=1e-9)


@pytest.mark.parametrize(("load", "servers"), [(0.7, 1), (1.5, 2), (5.0, 6)])
def test_the_distribution_has_the_mean_of_littles_law(load: float, servers: int) -> None:
    """The area above the distribution is the mean wait, and is found without it."""
    grid = np.linspace(0, 40, 2001)
    tail = [1 - waits_at_most(float(each), load, servers) for each in grid]

    assert integrate.trapezoid(tail, grid) == pytest.approx(wait("mean", load, servers), rel=1e-3)


def service_s() -> float:
    """Seconds of a request whose one token the prefill emits."""
    deployment = deployed(document("ar"), batching=ONE_AT_A_TIME)
    return play(deployment, [Request(0, PROMPT, 1)]).replica.records.requests[0].finished_s


def planned(rate_per_s: float, objective: Objective) -> dict[str, Any]:
    """The row of a plan for equal requests, one at a time in each replica."""
    load = {"kind": "poisson", "rate_per_s": rate_per_s, "requests": 2500}
    lengths = {"prompt_tokens": PROMPT, "output_tokens": 1}
    base = document("ar") | {"workload": load | lengths, "batching": ONE_AT_A_TIME, "seed": 11}
    question = Question(objectives=(objective,), effort=Effort(most_replicas=40))
    (row,) = plan(base, [Candidate("servers", {})], question, ThisProcess())["rows"]
    return dict(row)


@pytest.mark.parametrize(
    ("statistic", "load", "servers"),
    [
        ("mean", 0.6, 1),
        ("p90", 2.5, 4),
        ("mean", 4.0, 6),
        ("p50", 5.2, 6),
        ("p90", 8.0, 10),
    ],
)
def test_the_fewest_replicas_are_the_fewest_servers(
    statistic: str, load: float, servers: int
) -> None:
    """A limit half-way, by ratio, between the exact values of two numbers is kept by the larger."""
    kept, missed = (wait(statistic, load, number) for number in (servers, servers - 1))
    limit = math.sqrt(kept * missed) if math.isfinite(missed) else 1.5 * kept
    assert kept * CLEAR < limit < missed / CLEAR
    assert fewest(statistic, load, limit) == servers
    seconds = service_s()

    row = planned(load / seconds, Objective("queueing", statistic, limit * seconds))

    assert row["reason"] == ""
    assert row["replicas"] == servers
    (estimate,) = row["estimates"]
    assert estimate["mean"] == pytest.approx(kept * seconds, rel=0.4)
    assert (row["beyond"] is None) == (servers == 1)
