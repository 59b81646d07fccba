"""Arrivals: the SimPy process that submits each request when it arrives, whoever is still there."""

import math
from collections.abc import Callable, Generator, Iterator
from typing import Any

import simpy

from simulator.request import Request


def submit_on_arrival(
    environment: simpy.Environment,
    requests: Iterator[Request],
    submit: Callable[[Request], object],
) -> None:
    """Submit each of *requests*, which are in order of arrival, at its `arrival_s`.

    The clock adds up delays, so that it may be a rounding away from it; it is never before. One
    whose time has passed is submitted at once.
    """

    def arrive() -> Generator[simpy.Event, Any, None]:
        for request in requests:
            delay_s = request.arrival_s - environment.now
            if delay_s > 0:
                while environment.now + delay_s < request.arrival_s:
                    delay_s = math.nextafter(delay_s, math.inf)
                yield environment.timeout(delay_s)
            submit(request)

    environment.process(arrive())
