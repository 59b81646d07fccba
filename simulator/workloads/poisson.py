"""Poisson arrivals: gaps are exponential, the first from 0, as of many independent users."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from simulator.load.arrival_times import renewal_times
from simulator.load.generated import (
    GeneratedLoad,
    driver_of,
    generated_requests,
    prepared_load,
)
from simulator.request import Request


@dataclass(frozen=True, kw_only=True)
class Parameters(GeneratedLoad):
    """Requests that arrive independently of each other, *rate_per_s* in the mean."""

    kind: Literal["poisson"] = "poisson"


prepared = prepared_load


def requests(parameters: Parameters, seed: int) -> Iterator[Request]:
    """The requests in order of arrival, drawn as they are asked for."""
    mean_s = 1 / parameters.rate_per_s
    times = renewal_times(seed, lambda draws, n: draws.exponential(mean_s, n))
    return generated_requests(parameters, seed, times)


drive = driver_of(requests)
