"""GeneratedLoad: the fields that every generated open load has, and its requests."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat
from pathlib import Path
from typing import Annotated, ClassVar, TypeVar

import numpy as np
import simpy
from pydantic import ConfigDict, Field, Strict

from simulator.arrivals import submit_on_arrival
from simulator.documents import DocumentError, Mistake
from simulator.load.arrival_times import FloatArray
from simulator.load.lengths import Lengths, drawn_lengths
from simulator.load.request_source import Found, RequestSource, check_format, clipping_notes
from simulator.load.streams import CHUNK_REQUESTS, stream
from simulator.request import Request
from simulator.workloads.closed import Tokens
from traces.requests.layout import AUTO
from traces.requests.request_file import RequestFile, ZeroLengths
from traces.requests.selection import Selection

MOST_REQUESTS = 100_000_000

Count = Annotated[int, Strict(), Field(ge=1, le=MOST_REQUESTS)]
Rate = Annotated[float, Strict(), Field(ge=1e-6, le=1e9, allow_inf_nan=False)]
Seconds = Annotated[float, Strict(), Field(gt=0, le=1e12, allow_inf_nan=False)]


@dataclass(frozen=True, kw_only=True)
class GeneratedLoad:
    """How many requests a second, until when, how long they are and what they share."""

    __pydantic_config__ = ConfigDict(extra="forbid")
    FOUND: ClassVar = ("survey",)

    rate_per_s: Rate
    requests: Count | None = None
    duration_s: Seconds | None = None
    """Instead of *requests*: all that arrive before."""
    prompt_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    lengths: str | None = None
    """Path of a table instead: each request has the lengths of one of its rows, drawn by seed."""
    lengths_format: str = AUTO
    zero_lengths: ZeroLengths = "reject"
    most_prompt_tokens: Tokens | None = None
    most_output_tokens: Tokens | None = None
    shared_prefix_tokens: Annotated[int, Strict(), Field(ge=0, le=10_000_000)] = 0
    """First tokens of a prompt that it shares with every other of its group."""
    prefix_groups: Annotated[int, Strict(), Field(ge=1, le=100_000_000)] = 1
    """Groups that share a prefix each; a request's is drawn by seed."""
    survey: Found = None
    """What the table of lengths says."""

    @property
    def is_closed(self) -> bool:
        """Whether a request waits for another to finish: none does."""
        return False

    @property
    def n_requests(self) -> int | None:
        """Requests in all; None where *duration_s* says how many."""
        return self.requests

    @property
    def most_together(self) -> int:
        """Requests that can be in the system at once."""
        return self.requests or MOST_REQUESTS

    @property
    def longest_tokens(self) -> int:
        """Length of the longest sequence there can be."""
        if self.survey is not None:
            return self.survey.longest_tokens
        return (self.prompt_tokens or 1) + (self.output_tokens or 0)

    @property
    def example(self) -> Request:
        """A request of mean lengths."""
        if self.survey is not None:
            return Request(0, *self.survey.mean_lengths)
        return Request(0, self.prompt_tokens or 1, self.output_tokens or 1)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a result says of the load."""
        if self.survey is None:
            return ()
        found = self.survey
        drawn = f"lengths are drawn from the {found.n_requests} rows of {self.lengths}"
        clipped = clipping_notes(found, self.most_prompt_tokens, self.most_output_tokens)
        return (f"{drawn} (format {found.format})", *clipped)

    @property
    def table(self) -> RequestSource | None:
        """The table of lengths."""
        if self.lengths is None:
            return None
        file = RequestFile(
            path=Path(self.lengths),
            format=self.lengths_format,
            zero_lengths=self.zero_lengths,
            needs_arrivals=False,
        )
        clip = Selection(
            most_prompt_tokens=self.most_prompt_tokens, most_output_tokens=self.most_output_tokens
        )
        return RequestSource(file, clip, "workload.lengths")


L = TypeVar("L", bound=GeneratedLoad)


def prepared_load(load: L) -> L:
    """*load* with the survey of its table; raises DocumentError with what does not go together."""
    wrong = [*_count_mistakes(load), *_length_mistakes(load), *_prefix_mistakes(load)]
    if wrong:
        raise DocumentError("workload", wrong)
    table = load.table
    if table is None:
        return load
    check_format(load.lengths_format, "workload.lengths_format")
    return replace(load, survey=table.survey())


def _count_mistakes(load: GeneratedLoad) -> Iterator[Mistake]:
    if (load.requests is None) == (load.duration_s is None):
        yield Mistake("workload", "give one of requests and duration_s")


def _length_mistakes(load: GeneratedLoad) -> Iterator[Mistake]:
    given = [load.prompt_tokens is not None, load.output_tokens is not None]
    if not all(given) if load.lengths is None else any(given):
        yield Mistake("workload", "give prompt_tokens and output_tokens, or lengths: a table")
    if load.lengths is None:
        for name in ("most_prompt_tokens", "most_output_tokens"):
            if getattr(load, name) is not None:
                yield Mistake(f"workload.{name}", "clips the rows of lengths; there is no table")


def _prefix_mistakes(load: GeneratedLoad) -> Iterator[Mistake]:
    shared, prompt = load.shared_prefix_tokens, load.prompt_tokens
    if prompt is not None and shared > prompt:
        rule = f"is at most prompt_tokens, {prompt}"
        yield Mistake("workload.shared_prefix_tokens", f"{rule}, got {shared}")
    if load.prefix_groups > 1 and not shared:
        yield Mistake("workload.prefix_groups", "share shared_prefix_tokens, which is 0")


def generated_requests(
    load: GeneratedLoad, seed: int, times: Iterator[FloatArray]
) -> Iterator[Request]:
    """The requests that arrive at *times*, chunks in s; none is held."""
    groups = stream(seed, "groups", lambda draws, n: draws.integers(load.prefix_groups, size=n))
    shared = load.shared_prefix_tokens
    end_s = np.inf if load.duration_s is None else load.duration_s
    index = 0
    for chunk in zip(times, _lengths(load, seed), groups, strict=False):
        arrivals, (prompts, outputs), group = chunk
        rows = zip(
            arrivals.tolist(), prompts.tolist(), outputs.tolist(), group.tolist(), strict=True
        )
        for arrival_s, prompt, output, prefix in rows:
            if arrival_s >= end_s or index == load.requests:
                return
            identities = (prefix,) if shared else ()
            yield Request(index, prompt, output, arrival_s, seed, None, identities, shared)
            index += 1


def _lengths(load: GeneratedLoad, seed: int) -> Iterator[Lengths]:
    if load.table is not None:
        return drawn_lengths(load.table, seed)
    same = [np.full(CHUNK_REQUESTS, n) for n in (load.prompt_tokens, load.output_tokens)]
    return repeat((same[0], same[1]))


def driver_of(
    requests: Callable[[L, int], Iterator[Request]],
) -> Callable[[simpy.Environment, L, int, Callable[[Request], object]], None]:
    """The `drive` of a kind whose *requests*, of its parameters and a seed, these are."""

    def drive(
        environment: simpy.Environment,
        parameters: L,
        seed: int,
        submit: Callable[[Request], object],
    ) -> None:
        """Submit each request as it arrives; raises DocumentError where there is none."""
        made = requests(parameters, seed)
        first = next(made, None)
        if first is None:
            what = "no request arrives in it; a longer one or another seed is needed"
            raise DocumentError("workload", [Mistake("workload.duration_s", what)])
        submit_on_arrival(environment, chain([first], made), submit)

    return drive
