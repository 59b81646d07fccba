"""Laws of serving: any policy, batching, prefill, cache, router, and replicas apart or split."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import routers
from simulator.deployment import Deployment
from simulator.engine import simulate
from simulator.records import RunRecords
from simulator.request import Request
from tests.laws.checks import LAWS, ROUNDING, the_same_to_rounding
from tests.laws.served_checks import SERVED_LAWS
from tests.strategies import (
    BATCHINGS,
    POLICIES,
    arriving_requests,
    decodes,
    deployed,
    document,
    longest_bytes,
    open_document,
    play,
    serve,
    servings,
    with_capacity,
)

ROUTERS = routers.names()
few = settings(max_examples=3)

ROOMS = (1.0, 1.5, 2.5, 100.0)
"""Caches in longest requests: the first ones make requests wait, or preempt each other."""


@st.composite
def served_deployments(
    draw: st.DrawFn, /, policy: str, mode: str, *, is_open: bool = True, **changes: Any
) -> Deployment:
    """Any serving of *policy* under an open or a closed load on the ideal engine."""
    scenario = open_document(policy) if is_open else document(policy)
    return deployed(
        scenario | {"decode": draw(decodes(policy))},
        batching={"mode": mode, "max_batch": draw(st.integers(1, 5), label="max_batch")},
        serving=draw(servings(policy, mode)),
        **changes,
    )


@st.composite
def splits(draw: st.DrawFn) -> dict[str, Any] | None:
    """Prompts filled where they are decoded, or sent over a quick or a slow link."""
    rate = draw(st.sampled_from([None, 1e8, 1e12]), label="link")
    if rate is None:
        return None
    return {
        "prefill_replicas": draw(st.integers(1, 2), label="prefill_replicas"),
        "link_bytes_per_s": rate,
        "link_latency_s": draw(st.sampled_from([0.0, 0.001]), label="latency"),
    }


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_every_way_of_serving_keeps_the_laws(policy: str, mode: str, data: st.DataObject) -> None:
    """The laws of a run hold for every prefill, grant and load, however tight the cache is."""
    deployment = data.draw(served_deployments(policy, mode))
    requests = data.draw(arriving_requests())
    room = data.draw(st.sampled_from(ROOMS), label="room")
    is_open = data.draw(st.booleans(), label="is_open")

    run = play(deployment, requests, room * longest_bytes(deployment, requests), is_open=is_open)

    for law in LAWS:
        law(run)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_every_cluster_keeps_the_laws(policy: str, mode: str, data: st.DataObject) -> None:
    """The laws hold for replicas behind every router, prompts filled there or elsewhere."""
    deployment = data.draw(
        served_deployments(
            policy,
            mode,
            is_open=data.draw(st.booleans(), label="is_open"),
            router=data.draw(st.sampled_from(ROUTERS), label="router"),
            parallel={"dp": data.draw(st.integers(1, 3), label="dp")},
            disaggregation=data.draw(splits()),
        )
    )
    requests = data.draw(arriving_requests())
    room = data.draw(st.sampled_from(ROOMS), label="room") * longest_bytes(deployment, requests)

    run = serve(with_capacity(deployment, room), requests)

    for law in SERVED_LAWS:
        law(run)


def over_before(records: RunRecords, time_s: float) -> dict[str, Any]:
    """Columns of the steps and requests that are over before *time_s*, in an order of their own."""
    # What ends at that very instant may be decided in either order.
    limit_s = time_s * (1 - ROUNDING)
    steps, requests = records.steps, records.requests
    ends_s = steps.column("start_s") + steps.column("seconds")
    tables = (
        ("step", steps, ends_s, np.lexsort((steps.column("start_s"), steps.column("replica")))),
        (
            "request",
            requests,
            requests.column("finished_s"),
            np.argsort(requests.column("request")),
        ),
    )
    return {
        f"{kind} {name}": table.column(name)[order][ends[order] < limit_s]
        for kind, table, ends, order in tables
        for name in table.types
    }


def the_same_columns(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Equal to rounding: how many steps are priced together changes the last bit."""
    for name, column in theirs.items():
        np.testing.assert_allclose(mine[name], column, rtol=ROUNDING, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_one_more_request_changes_nothing_before_it_arrives(
    policy: str, mode: str, data: st.DataObject
) -> None:
    """Steps and finishes up to the arrival of a late request are the same without it."""
    deployment = data.draw(
        served_deployments(
            policy,
            mode,
            router=data.draw(st.sampled_from(ROUTERS), label="router"),
            parallel={"dp": data.draw(st.integers(1, 2), label="dp")},
            disaggregation=data.draw(splits()),
        )
    )
    early = data.draw(arriving_requests(most=6))
    room = data.draw(st.sampled_from(ROOMS), label="room")
    deployment = with_capacity(deployment, room * longest_bytes(deployment, early))
    alone = serve(deployment, early).records
    steps = list(alone.steps)
    # At a boundary, in the middle of a step, or when all is over.
    which = data.draw(st.integers(0, len(steps) - 1), label="step")
    inside = data.draw(st.sampled_from([0.0, 0.4, 1e6]), label="inside")
    time_s = max(early[-1].arrival_s, steps[which].start_s + inside * steps[which].seconds)
    late = Request(len(early), 30, 20, time_s, prefix=(1, 2), prefix_block_tokens=16)

    joined = serve(deployment, [*early, late]).records

    the_same_columns(over_before(joined, time_s), over_before(alone, time_s))


@pytest.mark.parametrize("kind", ["constant", "gamma", "poisson"])
def test_one_request_more_of_a_load_changes_nothing_before_it(kind: str) -> None:
    """A load of 41 requests is that of 40 and another one, whatever is drawn by seed."""
    load = {"kind": kind, "rate_per_s": 60.0, "prompt_tokens": 40, "output_tokens": 24}
    cv = {"cv": 2.0} if kind == "gamma" else {}
    scenario = document("ar") | {"seed": 5, "parallel": {"dp": 2}, "router": "power-of-two"}
    fewer, more = (
        simulate(deployed(scenario | {"workload": load | cv | {"requests": n}})).records
        for n in (40, 41)
    )

    last_s = max(record.arrival_s for record in more.requests)
    before = over_before(fewer, last_s)
    the_same_columns(over_before(more, last_s), before)
    assert len(before["step start_s"]) > 40
    assert len(before["request finished_s"]) > 20


@pytest.mark.parametrize("router", ROUTERS)
@pytest.mark.parametrize("mode", BATCHINGS)
@settings(max_examples=4)
@given(data=st.data())
def test_one_replica_behind_a_router_is_no_router(
    router: str, mode: str, data: st.DataObject
) -> None:
    """Whichever router it is, one replica does what it does without any."""
    deployment = data.draw(served_deployments("uno-linear", mode, router=router))
    requests = data.draw(arriving_requests())
    room = data.draw(st.sampled_from(ROOMS)) * longest_bytes(deployment, requests)

    routed = serve(with_capacity(deployment, room), requests).records
    direct = play(deployment, requests, room, is_open=True).replica.records

    the_same_to_rounding(routed, direct)


def own_columns(records: RunRecords, replica: int) -> dict[str, Any]:
    """What happened on one replica, but for its number."""
    return {
        f"{kind} {name}": table.column(name)[table.column("replica") == replica]
        for kind, table in (("request", records.requests), ("step", records.steps))
        for name in table.types
        if name != "replica"
    }


@pytest.mark.parametrize("mode", BATCHINGS)
@settings(max_examples=6)
@given(data=st.data())
def test_replicas_in_turn_are_runs_of_every_other_request(mode: str, data: st.DataObject) -> None:
    """Round robin over k replicas is k runs, each of every k-th request."""
    replicas = data.draw(st.integers(2, 3), label="replicas")
    deployment = data.draw(served_deployments("single-block", mode, parallel={"dp": replicas}))
    requests = data.draw(arriving_requests())
    room = data.draw(st.sampled_from(ROOMS)) * longest_bytes(deployment, requests)

    together = serve(with_capacity(deployment, room), requests).records

    for index in range(replicas):
        alone = play(deployment, requests[index::replicas], room, is_open=True).replica.records
        the_same_columns(own_columns(together, index), own_columns(alone, 0))


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("router", ROUTERS)
@settings(max_examples=4)
@given(data=st.data())
def test_bulk_steps_of_a_cluster_are_the_plain_loop(
    router: str, mode: str, data: st.DataObject
) -> None:
    """Where requests go and what their replicas do is the same whichever way steps are taken."""
    deployment = data.draw(
        served_deployments(
            "joint-threshold",
            mode,
            router=router,
            parallel={"dp": data.draw(st.integers(1, 3), label="dp")},
            disaggregation=data.draw(splits()),
        )
    )
    requests = data.draw(arriving_requests())
    room = data.draw(st.sampled_from(ROOMS)) * longest_bytes(deployment, requests)
    deployment = with_capacity(deployment, room)

    bulk, plain = (serve(deployment, requests, one_by_one=way).records for way in (False, True))

    mine, theirs = (
        sorted((r.request, r.replica, r.finished_s, r.first_token_s) for r in run.requests)
        for run in (bulk, plain)
    )
    assert [r[:2] for r in mine] == [r[:2] for r in theirs]
    assert [r[2:] for r in mine] == [pytest.approx(r[2:], rel=1e-9) for r in theirs]


def test_tight_caches_do_preempt() -> None:
    """The laws above see preemption: three growing requests in the cache of one and a half."""
    growing = {"kv_admission": "growing", "kv_page_tokens": 1}
    deployment = deployed(open_document("ar"), serving=growing)
    requests = [Request(i, 20, 40) for i in range(3)]

    run = play(deployment, requests, 1.5 * longest_bytes(deployment, requests), is_open=True)

    assert sum(record.preemptions for record in run.replica.records.requests) > 0
    for law in LAWS:
        law(run)
