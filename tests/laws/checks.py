"""The laws that every run keeps, as functions that take a run and fail where it breaks one."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from simulator.records import RunRecords, StepRecord
from simulator.result import time_shares
from tests.strategies import Played, WatchedLedger

# Clock readings differ from sums of step times by rounding.
ROUNDING = 1e-9


def end_s(step: StepRecord) -> float:
    """When a step is over."""
    return step.start_s + step.seconds


def the_same_to_rounding(mine: RunRecords, theirs: RunRecords) -> None:
    """The same requests, steps and rejections; clock readings are sums of thousands of steps."""
    assert len(mine.requests) == len(theirs.requests)
    assert len(mine.steps) == len(theirs.steps)
    for one, other in ((mine.requests, theirs.requests), (mine.steps, theirs.steps)):
        for name in one.types:
            np.testing.assert_allclose(
                one.column(name), other.column(name), rtol=ROUNDING, atol=1e-12, err_msg=name
            )
    assert list(mine.rejected) == list(theirs.rejected)


def every_request_finishes_once(run: Played) -> None:
    """As many requests come out as went in, with their own lengths."""
    asked = Counter((r.index, r.prompt_tokens, r.output_tokens) for r in run.requests)
    records = run.replica.records.requests
    done = Counter((r.request, r.prompt_tokens, r.output_tokens) for r in records)

    assert done == asked
    assert not run.replica.waiting
    assert not run.replica.live


def every_token_comes_out_once(run: Played) -> None:
    """The steps emit the tokens that were asked for, none more, and prefill whole prompts."""
    steps = run.replica.records.steps
    schedules = [run.deployment.schedule(request) for request in run.requests]
    sampled = sum(schedule.prefill_emits_tokens for schedule in schedules)

    assert sum(s.emitted_tokens for s in steps) == sum(r.output_tokens for r in run.requests)
    is_mixed = run.deployment.engine.prefill_order == "mixed"
    again = sum(r.preemptions for r in run.replica.records.requests)
    if not is_mixed:
        assert sum(s.emitted_tokens for s in steps if s.prefill) == sampled
    if run.deployment.drafter is None and not is_mixed and not again:
        prefilled = sum(schedule.prefill_tokens for schedule in schedules)
        prefilled -= sum(r.cached_prefix_tokens for r in run.replica.records.requests)
        assert sum(s.query_tokens for s in steps if s.prefill) == prefilled


def every_step_is_somebodys(run: Played) -> None:
    """Rows of steps are the requests' steps and prefill forwards, plus rows that ride along."""
    records = run.replica.records
    rows = sum(s.rows for s in records.steps)
    own = sum(r.decode_steps + r.prefill_forwards for r in records.requests)
    batching = run.deployment.batching
    if not batching.leaves(1, 2) or batching.WAITS_FOR_BLOCKS:
        assert rows >= own
        return
    assert rows == own
    if run.deployment.engine.prefill_order != "mixed":
        forwards = sum(r.forwards for r in records.requests)
        assert sum(s.rows * s.forwards for s in records.steps if not s.prefill) == forwards


def the_cache_is_never_overdrawn(run: Played) -> None:
    """Granted bytes stay within the capacity and all come back, each request's exactly once."""
    ledger = run.ledger
    assert ledger.used_bytes == 0
    assert all(s.kv_used_bytes <= ledger.capacity_bytes for s in run.replica.records.steps)
    if isinstance(ledger, WatchedLedger):
        again = [r.request for r in run.replica.records.requests for _ in range(r.preemptions)]
        indices = sorted([request.index for request in run.requests] + again)
        assert sorted(ledger.granted) == indices
        assert sorted(ledger.freed) == indices
        assert ledger.most_used_bytes <= ledger.capacity_bytes


def the_batch_is_never_overfull(run: Played) -> None:
    """No step has more rows than the batch may have."""
    assert all(s.rows <= run.deployment.max_batch for s in run.replica.records.steps)


def causes_come_before_effects(run: Played) -> None:
    """A request arrives, is admitted, has its first token and finishes, in that order."""
    for record in run.replica.records.requests:
        assert record.arrival_s <= record.admitted_s
        assert record.admitted_s < record.first_token_s
        assert record.first_token_s <= record.finished_s


def requests_are_admitted_in_order(run: Played) -> None:
    """Nobody overtakes in the queue."""
    records = sorted(run.replica.records.requests, key=lambda r: (r.arrival_s, r.request))
    admitted = [r.admitted_s for r in records]

    assert admitted == sorted(admitted)


def steps_follow_one_another(run: Played) -> None:
    """The replica's steps take time, never overlap, and the clock never goes back."""
    steps = run.replica.records.steps
    assert all(s.seconds > 0 for s in steps)
    for earlier, later in pairwise(steps):
        assert later.start_s >= end_s(earlier) - ROUNDING * later.start_s
        assert later.start_s > earlier.start_s


def the_replica_is_never_idle_with_work(run: Played) -> None:
    """Between two steps with a pause, and before the first, nobody is in the system."""
    steps, records = run.replica.records.steps, run.replica.records.requests
    pauses = [(-math.inf, steps[0].start_s)]
    pauses += [(end_s(a), b.start_s) for a, b in pairwise(steps)]
    pauses.append((end_s(steps[-1]), math.inf))
    for begin, end in pauses:
        slack = ROUNDING * max(abs(begin), 1e-3) if math.isfinite(begin) else 0.0
        if end - begin > slack:
            inside = [r for r in records if r.arrival_s < end and r.finished_s > begin + slack]
            assert not inside


def whoever_fits_joins_the_next_step(run: Played) -> None:
    """No decode step starts without a request that was waiting before and fits.

    Not in batches that begin together or wait for blocks, nor where somebody was preempted, who
    goes first, nor in mixed steps, which have less rows than the batch where the budget is short.
    Arrivals at the very instant of a step boundary join after the step that starts there.
    """
    batching, records = run.deployment.batching, run.replica.records.requests
    if run.deployment.engine.prefill_order == "mixed":
        return
    if batching.BEGINS_TOGETHER or batching.WAITS_FOR_BLOCKS or any(r.preemptions for r in records):
        return
    steps = run.replica.records.steps
    by_request = {request.index: request for request in run.requests}
    for before, step in pairwise(steps):
        if step.prefill or before.prefill:
            continue
        waiting = [r for r in records if r.arrival_s <= step.start_s < r.admitted_s]
        if waiting and step.rows < run.deployment.max_batch:
            first = min(waiting, key=lambda r: (r.arrival_s, r.request))
            asked, engine = by_request[first.request], run.deployment.engine
            grows = engine.kv_admission == "growing"
            need = run.deployment.held_bytes(asked.prompt_tokens if grows else asked.total_tokens)
            need += engine.kv_watermark * run.ledger.capacity_bytes
            assert step.kv_used_bytes + need > run.ledger.capacity_bytes


def littles_law_holds_of_the_batch(run: Played) -> None:
    """Requests in the batch, summed over the time of the steps, are what each spent in it.

    That is from its admission to its finish, less what whoever was set back spent in the queue.
    """
    records = run.replica.records
    assert all(s.rows <= s.batch_rows <= run.deployment.max_batch for s in records.steps)
    by_steps = math.fsum(s.seconds * s.batch_rows for s in records.steps)
    by_requests = math.fsum(r.finished_s - r.admitted_s for r in records.requests)
    if any(r.preemptions for r in records.requests):
        assert by_steps <= by_requests * (1 + ROUNDING)
        return
    assert math.isclose(by_steps, by_requests, rel_tol=ROUNDING)


def time_is_accounted_for(run: Played) -> None:
    """Operations and limits each share out the whole time, which is that of the steps."""
    account = run.replica.account
    busy = math.fsum(s.seconds for s in run.replica.records.steps)
    shares = time_shares(account)

    assert math.isclose(account.total_s, busy, rel_tol=ROUNDING)
    assert math.isclose(math.fsum(shares["by_operation"].values()), 1, rel_tol=ROUNDING)
    assert math.isclose(math.fsum(shares["by_bound"].values()), 1, rel_tol=ROUNDING)
    kernels = math.fsum(account.seconds_by_kernel.values())
    overhead = account.seconds_by_bound["engine"]
    assert math.isclose(kernels + overhead, busy, rel_tol=ROUNDING)


LAWS: tuple[Callable[[Played], None], ...] = (
    every_request_finishes_once,
    every_token_comes_out_once,
    every_step_is_somebodys,
    the_cache_is_never_overdrawn,
    the_batch_is_never_overfull,
    causes_come_before_effects,
    requests_are_admitted_in_order,
    steps_follow_one_another,
    the_replica_is_never_idle_with_work,
    whoever_fits_joins_the_next_step,
    littles_law_holds_of_the_batch,
    time_is_accounted_for,
)
