"""The laws that every run of several replicas keeps."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise

from simulator.records import RequestRecord, StepRecord
from tests.laws.checks import ROUNDING, end_s
from tests.strategies import Served


def steps_of(run: Served, replica: int) -> list[StepRecord]:
    """The steps of one replica, in order."""
    return [step for step in run.records.steps if step.replica == replica]


def is_split(run: Served) -> bool:
    """Whether prompts are filled by replicas of their own."""
    return run.deployment.scenario.disaggregation is not None


def every_request_ends_once(run: Served) -> None:
    """Each request is finished or rejected, with its own lengths, and nobody is left."""
    asked = Counter((r.index, r.prompt_tokens, r.output_tokens) for r in run.requests)
    done = Counter((r.request, r.prompt_tokens, r.output_tokens) for r in run.records.requests)
    refused = Counter((r.request, r.prompt_tokens, r.output_tokens) for r in run.records.rejected)

    assert done + refused == asked
    assert not any(replica.load for replica in run.replicas)


def every_token_comes_out(run: Served) -> None:
    """The steps of all replicas together emit the tokens of those that finish."""
    emitted = sum(step.emitted_tokens for step in run.records.steps)

    assert emitted == sum(record.output_tokens for record in run.records.requests)
    if not is_split(run):
        for index in range(len(run.replicas)):
            own = [r.output_tokens for r in run.records.requests if r.replica == index]
            assert sum(step.emitted_tokens for step in steps_of(run, index)) == sum(own)


def all_cache_comes_back(run: Served) -> None:
    """No replica ever holds more than it has, and at the end nobody holds anything."""
    capacity = run.deployment.kv_capacity_bytes
    assert all(0 <= step.kv_used_bytes <= capacity for step in run.records.steps)
    for replica in run.replicas:
        assert replica.ledger.used_bytes == 0
        assert not replica.ledger.granted_bytes
        assert replica.ledger.prefixes.used_bytes == 0
        assert 0 <= replica.ledger.prefixes.unused_bytes <= capacity


def causes_come_first(run: Served) -> None:
    """A request arrives, is admitted, has its first token and finishes, in that order."""
    for record in run.records.requests:
        assert record.arrival_s <= record.admitted_s < record.first_token_s <= record.finished_s


def steps_never_overlap(run: Served) -> None:
    """A replica takes one step at a time, each takes time, and none has too many rows."""
    for index in range(len(run.replicas)):
        steps = steps_of(run, index)
        assert all(step.seconds > 0 for step in steps)
        assert all(0 < step.rows <= run.deployment.max_batch for step in steps)
        for earlier, later in pairwise(steps):
            assert later.start_s >= end_s(earlier) - ROUNDING * later.start_s


def pauses(steps: Sequence[StepRecord]) -> list[tuple[float, float]]:
    """Stretches without a step, the ones before and after all of them included."""
    if not steps:
        return [(-math.inf, math.inf)]
    between = [(end_s(earlier), later.start_s) for earlier, later in pairwise(steps)]
    return [(-math.inf, steps[0].start_s), *between, (end_s(steps[-1]), math.inf)]


def rounding_s(time_s: float) -> float:
    """By how much readings of a clock that says *time_s* may differ."""
    return ROUNDING * max(abs(time_s), 1e-3) if math.isfinite(time_s) else 0.0


def nobody_idles_with_work(run: Served) -> None:
    """While a replica pauses, it has no request, waiting or in the batch.

    Where prompts are filled elsewhere, caches may be on their way: that has a test of its own.
    """
    if is_split(run):
        return
    for index in range(len(run.replicas)):
        own = [r for r in run.records.requests if r.replica == index]
        for begin, end in pauses(steps_of(run, index)):
            first, last = begin + rounding_s(begin), end - rounding_s(end)
            inside = [r for r in own if r.arrival_s < last and r.finished_s > first]
            assert first >= last or not inside


def area_in_system(records: Sequence[RequestRecord]) -> float:
    """Requests in the system, summed over time by walking through arrivals and finishes."""
    changes = sorted([(r.arrival_s, 1) for r in records] + [(r.finished_s, -1) for r in records])
    present, areas = 0, []
    for (time_s, change), (following_s, _) in pairwise(changes):
        present += change
        areas.append(present * (following_s - time_s))
    return math.fsum(areas)


def littles_law_is_exact(run: Served) -> None:
    """Over a drained run, the number in the system adds up to the sum of the latencies."""
    records = list(run.records.requests)
    latencies = math.fsum(r.finished_s - r.arrival_s for r in records)

    assert math.isclose(area_in_system(records), latencies, rel_tol=ROUNDING)


SERVED_LAWS: tuple[Callable[[Served], None], ...] = (
    every_request_ends_once,
    every_token_comes_out,
    all_cache_comes_back,
    causes_come_first,
    steps_never_overlap,
    nobody_idles_with_work,
    littles_law_is_exact,
)
