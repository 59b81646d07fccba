"""IterationSteps: the iterations of a trace as flat arrays, those of a request together."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from simulator.schedule import IntArray
from traces.columns import flags, numbers
from traces.iteration_trace import IterationTrace


@dataclass(frozen=True, eq=False)
class IterationSteps:
    """What iterations emit and verify, [iterations], and where requests begin."""

    row: IntArray
    """Row of the trace's requests that each belongs to, in order."""
    emitted_tokens: IntArray
    drafts: IntArray
    """Drafts that were verified."""
    branches: IntArray
    """1 where they were a tree with branches, else 0."""
    n_requests: int

    @cached_property
    def first(self) -> IntArray:
        """The first iteration of each request, and behind the last one, [requests + 1]."""
        return np.searchsorted(self.row, np.arange(self.n_requests + 1))

    def of_request(self, row: int) -> IntArray:
        """Places of the iterations of the request in that *row*."""
        return np.arange(self.first[row], self.first[row + 1])


def captured_steps(trace: IterationTrace) -> IterationSteps:
    """Every iteration of *trace* as it was kept."""
    iterations = trace.iterations
    request, drafts = numbers(iterations, "request"), numbers(iterations, "nodes")
    return IterationSteps(
        row=np.searchsorted(numbers(trace.requests, "request"), request),
        emitted_tokens=numbers(iterations, "emitted"),
        drafts=drafts,
        branches=(drafts > numbers(iterations, "drafted")).astype(np.int64),
        n_requests=trace.requests.num_rows,
    )


def uncut_steps(trace: IterationTrace, block_tokens: int) -> IterationSteps:
    """Every iteration of *trace* at this block, as it was before the end of the output cut it.

    Below the block of the trace, which must then be of chains, each accepts what it did up to the
    drafts of the smaller block: the first drafts of a chain do not depend on those behind them.
    """
    every, iterations = captured_steps(trace), trace.iterations
    longest = int(numbers(iterations, "drafted").max(initial=0))
    drafts = max(0, longest - (trace.manifest.block_tokens - block_tokens))
    emitted = np.minimum(numbers(iterations, "accepted"), drafts) + trace.manifest.guaranteed_tokens
    verified = every.drafts if drafts == longest else np.minimum(every.drafts, drafts)
    return replace(every, emitted_tokens=emitted, drafts=verified)


def whole_steps(trace: IterationTrace, block_tokens: int) -> IterationSteps:
    """Those of `uncut_steps` that the end of the output would not have cut at this block."""
    every = uncut_steps(trace, block_tokens)
    kept = numbers(trace.iterations, "emitted")
    whole = ~flags(trace.iterations, "cut") | (every.emitted_tokens <= kept)
    return replace(
        every,
        row=every.row[whole],
        emitted_tokens=every.emitted_tokens[whole],
        drafts=every.drafts[whole],
        branches=every.branches[whole],
    )
