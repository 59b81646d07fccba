"""Trace workload: requests arrive when a file says, as long as it says, whoever is still there."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import simpy
from pydantic import ConfigDict, Field, Strict

from simulator.arrivals import submit_on_arrival
from simulator.documents import DocumentError, Mistake
from simulator.load.generated import MOST_REQUESTS, Count, Rate, Seconds
from simulator.load.request_source import Found, RequestSource, check_format
from simulator.load.trace_notes import trace_notes
from simulator.load.traced import traced_requests
from simulator.request import Request
from simulator.workloads.closed import Tokens
from traces.requests.layout import AUTO
from traces.requests.request_file import Order, RequestFile, TimeUnit, ZeroLengths
from traces.requests.selection import Selection


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The requests of *file*: of a window, at most so many, clipped, at another rate."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    FOUND: ClassVar = ("survey",)

    kind: Literal["trace"] = "trace"
    file: str
    """Path, from where the program runs."""
    format: str = AUTO
    time_unit: TimeUnit = "auto"
    rate_scale: Rate = 1.0
    """2.0 lets requests arrive twice as fast."""
    from_s: Annotated[float, Strict(), Field(ge=0, le=1e12, allow_inf_nan=False)] = 0.0
    """Window in the file's own time, from its first row; the run starts where it does."""
    until_s: Seconds | None = None
    requests: Count | None = None
    """The first so many of them."""
    most_prompt_tokens: Tokens | None = None
    """What is longer is clipped to it, as the output by the next."""
    most_output_tokens: Tokens | None = None
    zero_lengths: ZeroLengths = "reject"
    order: Order = "reject"
    survey: Found = None
    """What the file says."""

    @property
    def is_closed(self) -> bool:
        """Whether a request waits for another to finish: none does."""
        return False

    @property
    def n_requests(self) -> int | None:
        """Requests in all; None until the file is read."""
        return self.survey.n_requests if self.survey else None

    @property
    def most_together(self) -> int:
        """Requests that can be in the system at once."""
        return self.n_requests or self.requests or MOST_REQUESTS

    @property
    def longest_tokens(self) -> int:
        """Length of the longest finished sequence; 1 until the file is read."""
        return self.survey.longest_tokens if self.survey else 1

    @property
    def example(self) -> Request:
        """A request of mean lengths; of one token each until the file is read."""
        return Request(0, *(self.survey.mean_lengths if self.survey else (1, 1)))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result says of the load: where it is from and everything that changes it."""
        return () if self.survey is None else trace_notes(self.source, self.survey)

    @property
    def source(self) -> RequestSource:
        """The file and what is taken of it."""
        file = RequestFile(
            path=Path(self.file),
            format=self.format,
            time_unit=self.time_unit,
            zero_lengths=self.zero_lengths,
            order=self.order,
        )
        selection = Selection(
            from_s=self.from_s,
            until_s=math.inf if self.until_s is None else self.until_s,
            most_requests=self.requests,
            rate_scale=self.rate_scale,
            most_prompt_tokens=self.most_prompt_tokens,
            most_output_tokens=self.most_output_tokens,
        )
        return RequestSource(file, selection, "workload.file")


def prepared(parameters: Parameters) -> Parameters:
    """*parameters* with the survey of their file, by one reading; raises DocumentError."""
    if parameters.until_s is not None and parameters.until_s <= parameters.from_s:
        rule = f"is after from_s, {parameters.from_s}, got {parameters.until_s}"
        raise DocumentError("workload", [Mistake("workload.until_s", rule)])
    check_format(parameters.format, "workload.format")
    return replace(parameters, survey=parameters.source.survey())


def requests(parameters: Parameters, seed: int) -> Iterator[Request]:
    """The requests in order of arrival, read as they are asked for."""
    return traced_requests(parameters.source, seed)


def drive(
    environment: simpy.Environment,
    parameters: Parameters,
    seed: int,
    submit: Callable[[Request], object],
) -> None:
    """Start the process that submits each request as it arrives."""
    submit_on_arrival(environment, requests(parameters, seed), submit)
