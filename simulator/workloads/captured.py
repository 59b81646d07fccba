"""Captured workload: the requests of the trace that `decode.trace` names, each as it was."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

import simpy
from pydantic import ConfigDict, Field, Strict

from simulator.request import Request
from simulator.workloads.closed import Users, start_users

KIND: Final = "captured"


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The captured requests in their order, at most *concurrency* of them in the system at once."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    FOUND: ClassVar = ("lengths",)

    kind: Literal["captured"] = "captured"
    concurrency: Users = 1
    requests: Annotated[int, Strict(), Field(ge=1, le=1_000_000)] | None = None
    """The first so many, and all of them again where there are more; once each when absent."""
    lengths: tuple[tuple[int, int], ...] = ()
    """Prompt and output tokens of the captured requests: what the trace says, never a scenario."""

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
        return self.requests or max(1, len(self.lengths))

    @property
    def most_together(self) -> int:
        """Requests that can be in the system at once."""
        return min(self.concurrency, self.n_requests)

    @property
    def longest_tokens(self) -> int:
        """Length of the longest finished sequence."""
        return max((sum(pair) for pair in self.lengths[: self.n_requests]), default=1)

    @property
    def example(self) -> Request:
        """The request of middle length."""
        by_length = sorted(range(len(self.lengths)), key=lambda row: sum(self.lengths[row]))
        middle = by_length[len(by_length) // 2]
        return Request(middle, *self.lengths[middle], source=middle)


def drive(
    environment: simpy.Environment,
    parameters: Parameters,
    seed: int,
    submit: Callable[[Request], simpy.Event],
) -> None:
    """Start the users; the next request goes to whoever is free first."""
    sources = (index % len(parameters.lengths) for index in range(parameters.n_requests))
    requests = (
        Request(index, *parameters.lengths[source], seed=seed, source=source)
        for index, source in enumerate(sources)
    )
    start_users(environment, parameters.most_together, requests, submit)
