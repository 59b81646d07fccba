"""Closed workload: a fixed number of users, each sending its next request when one is done."""

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import simpy
from pydantic import ConfigDict, Field, Strict

from simulator.request import Request

Users = Annotated[int, Strict(), Field(ge=1, le=100_000)]
Tokens = Annotated[int, Strict(), Field(ge=1, le=10_000_000)]


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """*requests* of equal lengths, at most *concurrency* of them in the system at once."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    kind: Literal["closed"] = "closed"
    concurrency: Users = 1
    requests: Annotated[int, Strict(), Field(ge=1, le=1_000_000)] | None = None
    """As many as *concurrency* when absent."""
    prompt_tokens: Tokens = 1024
    output_tokens: Tokens = 1024

    @property
    def is_closed(self) -> bool:
        """Whether a request waits for another to finish: each user's next one does."""
        return True

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result says of the load: nothing was changed about it."""
        return ()

    @property
    def n_requests(self) -> int:
        """Requests in all."""
        return self.requests or self.concurrency

    @property
    def most_together(self) -> int:
        """Requests that can be in the system at once."""
        return min(self.concurrency, self.n_requests)

    @property
    def longest_tokens(self) -> int:
        """Length of the longest finished sequence."""
        return self.prompt_tokens + self.output_tokens

    @property
    def example(self) -> Request:
        """A request like the others."""
        return Request(0, self.prompt_tokens, self.output_tokens)


def drive(
    environment: simpy.Environment,
    parameters: Parameters,
    seed: int,
    submit: Callable[[Request], simpy.Event],
) -> None:
    """Start the users; the next request goes to whoever is free first."""
    lengths = (parameters.prompt_tokens, parameters.output_tokens)
    requests = (Request(index, *lengths, seed=seed) for index in range(parameters.n_requests))
    start_users(environment, parameters.most_together, requests, submit)


def start_users(
    environment: simpy.Environment,
    users: int,
    requests: Iterator[Request],
    submit: Callable[[Request], simpy.Event],
) -> None:
    """So many *users* take *requests* in their order, each its next one when its last is done."""

    def user() -> Generator[simpy.Event, Any, None]:
        for request in requests:
            yield submit(replace(request, arrival_s=environment.now))

    for _ in range(users):
        environment.process(user())
