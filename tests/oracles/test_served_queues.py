"""Queues with known answers, served by the engine: M/D/1, M/G/1, M/M/1, and two choices."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from simulator.engine import Simulated, simulate
from simulator.request import Request
from tests.strategies import deployed, document, play

FloatArray = npt.NDArray[np.float64]

PROMPT = 64
ONE_AT_A_TIME = {"max_batch": 1}
MEAN_TOKENS = 30.0
N_BATCHES = 20


def in_order(run: Simulated) -> tuple[FloatArray, FloatArray]:
    """(arrivals, waits for admission) of a run, in order of arrival, s."""
    records = run.records.requests
    order = np.argsort(records.column("request"))
    arrivals: FloatArray = records.column("arrival_s")[order]
    return arrivals, records.column("admitted_s")[order] - arrivals


def lindley(arrivals_s: FloatArray, services_s: FloatArray) -> FloatArray:
    """Waits of a queue with one server, each from the one before it (Lindley, 1952)."""
    waits = np.zeros(len(arrivals_s))
    gaps = np.diff(arrivals_s)
    for i, (service, gap) in enumerate(zip(services_s[:-1], gaps, strict=True)):
        waits[i + 1] = max(0.0, waits[i] + service - gap)
    return waits


def pollaczek_khinchine(rate_per_s: float, services_s: FloatArray) -> float:
    """Mean wait of M/G/1 from the first two moments of the service: r E[S^2] / (2 (1 - r E[S]))."""
    load = rate_per_s * services_s.mean()
    return float(rate_per_s * (services_s**2).mean() / (2 * (1 - load)))


def interval(waits_s: FloatArray) -> tuple[float, float]:
    """99.9 % confidence interval of the mean wait by batch means, s."""
    means = [batch.mean() for batch in np.array_split(waits_s, N_BATCHES)]
    half = stats.t.ppf(0.9995, N_BATCHES - 1) * np.std(means, ddof=1) / np.sqrt(N_BATCHES)
    return float(np.mean(means) - half), float(np.mean(means) + half)


def test_the_interval_holds_the_mean_of_what_is_independent() -> None:
    """The interval covers a known mean and shrinks with the root of the number of values."""
    draws = np.random.default_rng(1).exponential(3.0, 40_000)

    low, high = interval(draws)
    shorter = interval(draws[:10_000])

    assert low < 3.0 < high
    assert (shorter[1] - shorter[0]) / (high - low) == pytest.approx(2, rel=0.5)


def prefill_only(rate_per_s: float, requests: int) -> Simulated:
    """Poisson arrivals of equal prompts whose one token the prefill emits, one at a time."""
    load = {"kind": "poisson", "rate_per_s": rate_per_s, "requests": requests}
    lengths = {"prompt_tokens": PROMPT, "output_tokens": 1}
    scenario = document("ar") | {"workload": load | lengths, "batching": ONE_AT_A_TIME, "seed": 4}
    return simulate(deployed(scenario))


def prefill_alone_s() -> float:
    """The service of such a request."""
    deployment = deployed(document("ar"), batching=ONE_AT_A_TIME)
    return play(deployment, [Request(0, PROMPT, 1)]).replica.records.requests[0].finished_s


@pytest.mark.parametrize(("load", "requests"), [(0.3, 4000), (0.6, 8000), (0.8, 20_000)])
def test_constant_service_waits_as_m_d_1(load: float, requests: int) -> None:
    """Waits are Lindley's on the same arrivals, and their mean is rho s / (2 (1 - rho))."""
    service_s = prefill_alone_s()

    arrivals, waits = in_order(prefill_only(load / service_s, requests))

    np.testing.assert_allclose(
        waits, lindley(arrivals, np.full(requests, service_s)), atol=1e-9 * arrivals[-1]
    )
    low, high = interval(waits)
    assert low < load * service_s / (2 * (1 - load)) < high


def exponential_lengths(mean_tokens: float, rows: int) -> list[int]:
    """Whole lengths at the middles of equal parts of the exponential distribution."""
    middles = (np.arange(rows) + 0.5) / rows
    lengths = -mean_tokens * np.log1p(-middles)
    return [int(length) for length in np.maximum(1, np.round(lengths))]


def write_lengths(path: Path, outputs: Sequence[int]) -> None:
    """A table of lengths that a scenario can name."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["prompt_tokens", "output_tokens"])
        writer.writerows([PROMPT, output] for output in outputs)


def service_by_length_s(longest: int) -> FloatArray:
    """Service of a lone request with 1, 2, ... tokens, from the steps of the longest one."""
    deployment = deployed(document("ar"), batching=ONE_AT_A_TIME)
    steps = play(deployment, [Request(0, PROMPT, longest)]).replica.records.steps
    return np.cumsum(steps.column("seconds"))


def drawn(outputs: Sequence[int], folder: Path, rate_per_s: float, **fields: Any) -> Simulated:
    """Poisson arrivals of requests with outputs drawn from a table, one at a time."""
    table = folder / "lengths.csv"
    write_lengths(table, outputs)
    load = {"kind": "poisson", "rate_per_s": rate_per_s, "requests": 6000, "lengths": str(table)}
    scenario = document("ar") | {"workload": load, "batching": ONE_AT_A_TIME, "seed": 2}
    return simulate(deployed(scenario | fields), keep_steps=False)


def outputs_in_order(run: Simulated) -> npt.NDArray[np.int64]:
    """Output tokens, in order of arrival."""
    records = run.records.requests
    tokens: npt.NDArray[np.int64] = records.column("output_tokens")
    return tokens[np.argsort(records.column("request"))].astype(np.int64)


def test_drawn_outputs_wait_as_m_g_1(tmp_path: Path) -> None:
    """Waits are Lindley's, and their mean that of Pollaczek and Khinchine, and M/M/1's.

    Outputs are quantiles of an exponential distribution and a step takes nearly the same whatever
    the context, so that the service is nearly exponential: the M/M/1 mean is rho s / (1 - rho).
    """
    load, outputs = 0.5, exponential_lengths(MEAN_TOKENS, 2000)
    by_length = service_by_length_s(max(outputs))
    services = by_length[np.array(outputs) - 1]
    rate_per_s = load / services.mean()

    run = drawn(outputs, tmp_path, rate_per_s)

    arrivals, waits = in_order(run)
    own = by_length[outputs_in_order(run) - 1]
    np.testing.assert_allclose(waits, lindley(arrivals, own), atol=1e-9 * arrivals[-1])
    low, high = interval(waits)
    assert low < pollaczek_khinchine(rate_per_s, services) < high
    assert low < load * services.mean() / (1 - load) < high


def test_two_choices_wait_as_mitzenmacher_says(tmp_path: Path) -> None:
    """With two choices among many replicas, a request stays sum over i of rho^(2^i - 2) services.

    That is for exponential services and infinitely many replicas (Mitzenmacher, 2001, for d = 2).
    Taking turns waits longer, the least loaded of all replicas less, and one choice at random, of
    which each replica is an M/M/1 queue, several times as long.
    """
    load, replicas = 0.9, 24
    outputs = exponential_lengths(MEAN_TOKENS, 2000)
    services = service_by_length_s(max(outputs))[np.array(outputs) - 1]
    rate_per_s = load * replicas / services.mean()

    stays = {}
    for router in ("round-robin", "power-of-two", "least-loaded"):
        run = drawn(outputs, tmp_path, rate_per_s, router=router, parallel={"dp": replicas})
        arrivals, waits = in_order(run)
        # From the middle on, the queues have long forgotten that they were empty.
        stays[router] = waits[len(arrivals) // 4 :].mean() / services.mean() + 1

    mitzenmacher = sum(load ** (2**i - 2) for i in range(1, 12))
    assert stays["power-of-two"] == pytest.approx(mitzenmacher, rel=0.1)
    assert stays["least-loaded"] < 0.8 * stays["power-of-two"]
    assert stays["power-of-two"] < 0.7 * stays["round-robin"]
    assert stays["power-of-two"] < 0.4 / (1 - load)
