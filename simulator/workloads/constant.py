"""Constant arrivals: one request every 1 / rate_per_s, the first at 0."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from simulator.load.arrival_times import even_times
from simulator.load.generated import (
    GeneratedLoad,
    driver_of,
    generated_requests,
    prepared_load,
)
from simulator.request import Request


@dataclass(frozen=True, kw_only=True)
class Parameters(GeneratedLoad):
    """Requests at equal distances in time."""

    kind: Literal["constant"] = "constant"


prepared = prepared_load


def requests(parameters: Parameters, seed: int) -> Iterator[Request]:
    """The requests in order of arrival, drawn as they are asked for."""
    return generated_requests(parameters, seed, even_times(parameters.rate_per_s))


drive = driver_of(requests)
