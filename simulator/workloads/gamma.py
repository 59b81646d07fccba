"""Gamma arrivals: gaps of a given coefficient of variation, above 1 in bursts, below 1 evener."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field, Strict

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
    """Requests whose gaps, from 0, are gamma-distributed with mean 1 / *rate_per_s*."""

    kind: Literal["gamma"] = "gamma"
    cv: Annotated[float, Strict(), Field(ge=0.001, le=1000, allow_inf_nan=False)]
    """Standard deviation of the gaps over their mean; 1 is Poisson arrivals."""


prepared = prepared_load


def requests(parameters: Parameters, seed: int) -> Iterator[Request]:
    """The requests in order of arrival, drawn as they are asked for."""
    # A gamma of shape k and scale s has the mean k s and the coefficient of variation k^-1/2.
    shape, mean_s = parameters.cv**-2, 1 / parameters.rate_per_s
    times = renewal_times(seed, lambda draws, n: draws.gamma(shape, mean_s / shape, n))
    return generated_requests(parameters, seed, times)


drive = driver_of(requests)
