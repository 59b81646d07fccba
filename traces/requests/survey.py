"""Survey: what a file of requests comes to, from one reading of it."""

from collections.abc import Iterable
from dataclasses import dataclass

from traces.requests.selection import Taken


@dataclass(frozen=True, kw_only=True)
class Survey:
    """Counts and sums over what is taken of a file."""

    format: str
    n_requests: int = 0
    longest_tokens: int = 0
    """Of a prompt and its output together."""
    prompt_tokens: int = 0
    """Sum over the requests, as the next."""
    output_tokens: int = 0
    last_arrival_s: float = 0.0
    first_arrival_s: float = 0.0
    skipped_rows: int = 0
    moved_rows: int = 0
    early_rows: int = 0
    clipped_prompts: int = 0
    clipped_outputs: int = 0

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return self.last_arrival_s - self.first_arrival_s

    @property
    def mean_lengths(self) -> tuple[int, int]:
        """Prompt and output tokens of a request of mean lengths, at least one each."""
        n_requests = max(1, self.n_requests)
        means = round(self.prompt_tokens / n_requests), round(self.output_tokens / n_requests)
        return max(1, means[0]), max(1, means[1])


def survey(parts: Iterable[Taken], *, format_name: str) -> Survey:
    """The survey of all *parts*."""
    found = Survey(format=format_name)
    for part in parts:
        found = _with(found, part)
    return found


def _with(so_far: Survey, part: Taken) -> Survey:
    block = part.block
    arrivals = block.arrival_s[[0, -1]].tolist() if block.n_requests else []
    is_first = not so_far.n_requests and arrivals
    return Survey(
        format=so_far.format,
        n_requests=so_far.n_requests + block.n_requests,
        longest_tokens=int(
            (block.prompt_tokens + block.output_tokens).max(initial=so_far.longest_tokens)
        ),
        prompt_tokens=so_far.prompt_tokens + int(block.prompt_tokens.sum()),
        output_tokens=so_far.output_tokens + int(block.output_tokens.sum()),
        first_arrival_s=arrivals[0] if is_first else so_far.first_arrival_s,
        last_arrival_s=arrivals[-1] if arrivals else so_far.last_arrival_s,
        skipped_rows=so_far.skipped_rows + block.skipped_rows,
        moved_rows=so_far.moved_rows + block.moved_rows,
        early_rows=so_far.early_rows + part.early_rows,
        clipped_prompts=so_far.clipped_prompts + part.clipped_prompts,
        clipped_outputs=so_far.clipped_outputs + part.clipped_outputs,
    )
