"""Laws of every run: of every policy, batching mode and engine, at any lengths."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import simulate
from tests.laws.checks import LAWS
from tests.strategies import (
    BATCHINGS,
    ENGINES,
    POLICIES,
    Played,
    closed_requests,
    deployed,
    document,
    fitting_decode,
    fitting_trace,
    play,
    request_lists,
    scenarios,
)

few = settings(max_examples=12, deadline=None)


@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_every_closed_run_keeps_the_laws(policy: str, data: st.DataObject) -> None:
    """Conservation, causality, order, work conservation and accounting hold for closed runs."""
    deployment = deployed(data.draw(scenarios(policy)))
    replica = simulate(deployment)

    run = Played(deployment, replica, closed_requests(deployment), replica.ledger)
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
    deployment = deployed(document(policy), engine=engine, batching=batching)
    requests = data.draw(request_lists())
    longest = max(deployment.sequence_bytes(r.total_tokens) for r in requests)

    run = play(deployment, requests, capacity_bytes=data.draw(st.floats(1.0, 3.0)) * longest)

    for law in LAWS:
        law(run)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", [p for p in POLICIES if fitting_trace(p)])
def test_runs_that_draw_from_a_trace_keep_the_laws(policy: str, mode: str) -> None:
    """The laws hold when requests of equal lengths finish at different steps."""
    decode = fitting_decode(policy, trace=fitting_trace(policy))
    scenario = document(policy, decode, concurrency=5, requests=12)
    deployment = deployed(scenario, batching={"mode": mode, "max_batch": 3})
    replica = simulate(deployment)

    run = Played(deployment, replica, closed_requests(deployment), replica.ledger)
    for law in LAWS:
        law(run)
