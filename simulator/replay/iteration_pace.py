"""IterationPace: the steps of a captured trace of iterations, request by request or drawn."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from simulator.pace import NINETY_PERCENT, PacedSteps, cut
from simulator.replay.iteration_steps import (
    IterationSteps,
    captured_steps,
    uncut_steps,
    whole_steps,
)
from simulator.replay.keyed_draws import below
from simulator.request import Request
from simulator.schedule import IntArray
from traces.columns import numbers
from traces.dependence import clustered_standard_error
from traces.iteration_trace import IterationTrace

# 90th percentile over 36 captures of the error in tokens per step of a larger block cut short; that
# in tokens per forward of repeated requests was 2.5 %, the worst 3.9 %.
TRUNCATION_ERROR: Final = 0.03


@dataclass(frozen=True, eq=False)
class IterationPace:
    """What iterations of *trace* emitted, in their order, since they depend on one another.

    - A request that names its *source*, at the captured block, does what that one did.
    - With a source at a smaller block it goes through that request's own iterations, cut short to
      the smaller block, again and again: shorter steps take more of them. The last one counts as it
      was before the output ended, since it would otherwise be the long ones that are left out.
    - Without a source it goes through the whole iterations of a request drawn from the trace, and
      when they are used up through those of another.
    """

    trace: IterationTrace
    block: int
    repeats: bool = False
    """Whether the requests of the run name their sources."""
    forgone_tokens: int = 0
    """Guaranteed tokens of a captured iteration that a step of the policy does not have."""

    @property
    def is_captured(self) -> bool:
        """Whether the trace is replayed under what it was captured with."""
        return not self.is_cut_short and not self.forgone_tokens

    @property
    def replay(self) -> str:
        """exact, counterfactual or resampled."""
        if not self.is_captured:
            return "counterfactual"
        return "exact" if self.repeats else "resampled"

    @cached_property
    def whole(self) -> IterationSteps:
        """The iterations that are drawn from."""
        return whole_steps(self.trace, self.block)

    @property
    def mean_tokens(self) -> float:
        """Mean tokens per step over the whole iterations; of one request, all weigh the same."""
        return float(self.whole.emitted_tokens.mean()) - self.forgone_tokens

    @property
    def sampling_error(self) -> float:
        """90th percentile of the relative error of mean tokens per step: that of few requests."""
        of_mean = clustered_standard_error(self.whole.emitted_tokens, self.whole.row) or 0.0
        return NINETY_PERCENT * of_mean / self.mean_tokens

    @property
    def is_cut_short(self) -> bool:
        """Whether a larger block stands for a smaller one."""
        return self.block != self.trace.manifest.block_tokens

    @property
    def relative_error(self) -> float:
        """90th percentile of the relative error of tokens per step; none where all is repeated."""
        if self.replay == "exact":
            return 0.0
        return math.hypot(self.sampling_error, TRUNCATION_ERROR if self.is_cut_short else 0.0)

    @property
    def warnings(self) -> Iterator[str]:
        """What the trace, and the way it is replayed, leave in doubt."""
        manifest = self.trace.manifest
        if self.is_cut_short:
            yield (
                f"what is accepted at block {self.block} is read off steps of block "
                f"{manifest.block_tokens}, cut short; that missed captures by "
                f"{TRUNCATION_ERROR:.0%} (90th percentile) and 4% (worst)"
            )
        yield from manifest.caveats

    def steps(self, request: Request) -> PacedSteps:
        """The decode steps of *request*.

        Raises ValueError for a source that is no request of the trace, or that does not have as
        many tokens where it is to be repeated.
        """
        n_tokens = request.output_tokens - 1
        if request.source is not None:
            self._check(request.source)
            if self.is_captured:
                return self._repeated(request.source, n_tokens)
        if n_tokens <= 0:
            return PacedSteps(np.zeros(0, dtype=np.int64))
        if request.source is not None and len(own := self._uncut.of_request(request.source)):
            tokens = int(self._uncut.emitted_tokens[own].sum()) - self.forgone_tokens * len(own)
            return self._through(self._uncut, np.tile(own, -(-n_tokens // tokens)), n_tokens)
        return self._through(self.whole, self._drawn(request.key, n_tokens), n_tokens)

    def _check(self, source: int) -> None:
        count = self.trace.requests.num_rows
        if not 0 <= source < count:
            rule = f"a source is a row of the {count} requests of {self.trace.manifest.name}"
            message = f"{rule}, got {source}"
            raise ValueError(message)

    @cached_property
    def _uncut(self) -> IterationSteps:
        return uncut_steps(self.trace, self.block)

    @cached_property
    def _captured(self) -> IterationSteps:
        return captured_steps(self.trace)

    @cached_property
    def _ended(self) -> IntArray:
        """1 where an end token came behind the output, [requests]."""
        return decoded_tokens(self.trace) - numbers(self.trace.requests, "output_tokens")

    def _repeated(self, source: int, n_tokens: int) -> PacedSteps:
        """Exactly the captured steps; the end token is emitted if the request counts it."""
        places = self._captured.of_request(source)
        emitted = self._captured.emitted_tokens[places].copy()
        uncounted = int(emitted.sum()) - max(n_tokens, 0)
        if uncounted not in {0, int(self._ended[source])}:
            rule = f"request {source} of {self.trace.manifest.name} has"
            message = f"{rule} {emitted.sum() + 1} tokens, end token included, got {n_tokens + 1}"
            raise ValueError(message)
        emitted[-1:] -= uncounted
        return PacedSteps(emitted, self._captured.drafts[places], self._captured.branches[places])

    @cached_property
    def _donors(self) -> tuple[IntArray, IntArray]:
        """Requests with whole iterations, and the tokens of each."""
        count = np.diff(self.whole.first)
        sums = np.bincount(self.whole.row, self.whole.emitted_tokens, minlength=len(count))
        donors = np.flatnonzero(count)
        return donors, (sums.astype(np.int64) - self.forgone_tokens * count)[donors]

    def _drawn(self, key: tuple[int, int], n_tokens: int) -> IntArray:
        """Places of the whole iterations of drawn requests, one behind the other."""
        donors, tokens = self._donors
        n_draws = -(-n_tokens // int(tokens.min()))
        # Enough of them in nearly all cases, and never more than that.
        n_draws = min(n_draws, 2 * (1 + int(n_tokens / tokens.mean())))
        drawn = below(len(donors), *key, np.arange(n_draws))
        while int(tokens[drawn].sum()) < n_tokens:
            n_draws *= 2
            drawn = below(len(donors), *key, np.arange(n_draws))
        drawn = drawn[: int(np.searchsorted(np.cumsum(tokens[drawn]), n_tokens)) + 1]
        first = self.whole.first[donors[drawn]]
        count = self.whole.first[donors[drawn] + 1] - first
        before = np.cumsum(count) - count
        return np.repeat(first - before, count) + np.arange(int(count.sum()))

    def _through(self, steps: IterationSteps, places: IntArray, n_tokens: int) -> PacedSteps:
        """The iterations of *steps* at *places*, until *n_tokens* are out."""
        emitted = cut(steps.emitted_tokens[places] - self.forgone_tokens, n_tokens)
        kept = places[: len(emitted)]
        return PacedSteps(emitted, steps.drafts[kept], steps.branches[kept])


def decoded_tokens(trace: IterationTrace) -> IntArray:
    """Tokens that each request of *trace* decoded, its end token if any included, [requests]."""
    captured = captured_steps(trace)
    emitted = np.bincount(captured.row, captured.emitted_tokens, minlength=captured.n_requests)
    return 1 + emitted.astype(np.int64)
