"""Laws of every run: of every policy, batching mode and engine, at any lengths."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import simulate
from simulator.request import Request
from tests.laws.checks import LAWS, end_s
from tests.strategies import (
    BATCHINGS,
    ENGINES,
    POLICIES,
    deployed,
    document,
    fitting_decode,
    fitting_serving,
    fitting_trace,
    play,
    request_lists,
    scenarios,
    simulated,
)

few = settings(max_examples=5)


@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_every_closed_run_keeps_the_laws(policy: str, data: st.DataObject) -> None:
    """Conservation, causality, order, work conservation and accounting hold for closed runs."""
    deployment = deployed(data.draw(scenarios(policy)))
    run = simulated(deployment)
    for law in LAWS:
        law(run)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_unequal_requests_keep_the_laws(policy: str, mode: str, data: st.DataObject) -> None:
    """The laws hold for requests of any lengths and arrivals, and a cache that holds only two."""
    engine = data.draw(st.sampled_from(ENGINES))
    batching = {"mode": mode, "max_batch": data.draw(st.integers(1, 4))}
    serving = fitting_serving(engine, mode)
    deployment = deployed(document(policy), engine=engine, batching=batching, serving=serving)
    requests = data.draw(request_lists())
    longest = max(deployment.sequence_bytes(r.total_tokens) for r in requests)

    run = play(deployment, requests, capacity_bytes=data.draw(st.floats(1.0, 3.0)) * longest)

    for law in LAWS:
        law(run)


@pytest.mark.parametrize("policy", ["ar", "uno-linear"])
def test_a_one_token_request_rides_along_in_a_static_batch(policy: str) -> None:
    """A request that the prefill finishes may share a static batch with one that decodes."""
    deployment = deployed(document(policy), batching={"mode": "static"})

    run = play(deployment, [Request(0, 8, 1), Request(1, 8, 5)])

    for law in LAWS:
        law(run)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", [p for p in POLICIES if fitting_trace(p)])
def test_runs_that_draw_from_a_trace_keep_the_laws(policy: str, mode: str) -> None:
    """The laws hold when requests of equal lengths finish at different steps."""
    decode = fitting_decode(policy, trace=fitting_trace(policy))
    scenario = document(policy, decode, concurrency=5, requests=12)
    deployment = deployed(scenario, batching={"mode": mode, "max_batch": 3})
    run = simulated(deployment)
    for law in LAWS:
        law(run)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_a_later_request_changes_nothing_before_it_arrives(policy: str, mode: str) -> None:
    """Steps that are over when a request arrives are the same without it."""
    deployment = deployed(document(policy), batching={"mode": mode, "max_batch": 3})
    early = [Request(0, 40, 30), Request(1, 20, 50), Request(2, 60, 10)]
    alone = play(deployment, early).replica.records.steps
    arrival_s = alone[len(alone) // 2].start_s

    joined = play(deployment, [*early, Request(3, 30, 20, arrival_s=arrival_s)])

    over = [step for step in alone if end_s(step) <= arrival_s]
    assert len(over) > 2
    assert joined.replica.records.steps[: len(over)] == over


def test_the_successor_of_a_finished_request_joins_the_next_step() -> None:
    """In a closed loop a user's next request takes the place of the one that just finished."""
    decode = fitting_decode("uno-linear", trace="uno-qwen3-8b-t1")
    scenario = document("uno-linear", decode, concurrency=4, requests=12, output_tokens=64)

    steps = simulate(deployed(scenario)).records.steps

    decoding_until_drain = [s.rows for s in steps if not s.prefill][:-20]
    assert set(decoding_until_drain) == {4}


def test_static_batches_are_whole_while_enough_users_wait() -> None:
    """Twelve users of static batches of eight never leave a batch half empty before the end."""
    scenario = document("ar", concurrency=12, requests=48, output_tokens=8)
    deployment = deployed(scenario, batching={"mode": "static", "max_batch": 8})

    steps = simulate(deployment).records.steps

    assert {s.rows for s in steps if not s.prefill} == {8}


def test_first_tokens_come_out_when_their_prefill_forward_ends() -> None:
    """What a prefill forward emits are the first tokens of the requests it completes."""
    deployment = deployed(document("ar"))
    whole = deployment.engine.prefill_batch_tokens
    run = play(deployment, [Request(0, whole, 4), Request(1, whole, 4), Request(2, whole, 4)])

    prefills = [s for s in run.replica.records.steps if s.prefill]

    assert [s.emitted_tokens for s in prefills] == [1, 1, 1]
    firsts = sorted(r.first_token_s for r in run.replica.records.requests)
    for step, first_s in zip(prefills, firsts, strict=True):
        assert math.isclose(end_s(step), first_s, rel_tol=1e-9)


@pytest.mark.parametrize("admission", ["finished", "growing"])
def test_a_request_that_can_never_fit_is_rejected_and_counted(admission: str) -> None:
    """A request larger than the empty cache is turned away by itself; the others are served."""
    deployment = deployed(document("ar"), serving={"kv_admission": admission})
    capacity_bytes = deployment.held_bytes(40)

    run = play(deployment, [Request(0, 8, 8), Request(1, 30, 30), Request(2, 8, 8)], capacity_bytes)

    assert [r.request for r in run.replica.records.requests] == [0, 2]
    (rejected,) = run.replica.records.rejected
    assert rejected.request == 1
    assert "cache" in rejected.reason
