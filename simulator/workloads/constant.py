"""Constant arrivals: one request every 1 / rate_per_s, the first at 0."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import simpy

from simulator.load.arrival_times import even_times
from simulator.load.generated import (
    GeneratedLoad,
    drive_generated,
    generated_requests,
    prepared_load,
)
from simulator.request import Request


@dataclass(frozen=True, kw_only=True)
class Parameters(GeneratedLoad):
    """Requests at equal distances in time."""

    kind: Literal["constant"] = "constant"


def prepared(parameters: Parameters) -> Parameters:
    """*parameters* with what their files say; raises DocumentError."""
    return prepared_load(parameters)


def requests(parameters: Parameters, seed: int) -> Iterator[Request]:
    """The requests in order of arrival, drawn as they are asked for."""
    return generated_requests(parameters, seed, even_times(parameters.rate_per_s))


def drive(
    environment: simpy.Environment,
    parameters: Parameters,
    seed: int,
    submit: Callable[[Request], object],
) -> None:
    """Start the process that submits each request as it arrives."""
    drive_generated(environment, requests(parameters, seed), submit)
