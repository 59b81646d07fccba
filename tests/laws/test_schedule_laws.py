"""Laws of the schedule of every policy: what one request does, at any lengths and parameters."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.decoding import Setting, policy
from simulator.documents import DocumentError
from simulator.replay.block_pace import BlockPace
from simulator.request import Request
from simulator.schedule import ADAPTER, CONTEXT, LOGITS, N_LOADS, QUERY, Schedule
from tests.strategies import (
    ENGINES,
    POLICIES,
    decodes,
    deployed,
    document,
    fitting_decode,
    fitting_trace,
)

STORES = ("separate", "fused", "overlapped")
lengths = st.tuples(st.integers(1, 200), st.integers(1, 120))
some = settings(max_examples=15)


def scheduled(name: str, data: st.DataObject) -> tuple[Request, Schedule]:
    """A request of any lengths, and its schedule on an engine that stores KV in any way."""
    deployment = deployed(document(name, data.draw(decodes(name))))
    engine = dataclasses.replace(deployment.engine, kv_store=data.draw(st.sampled_from(STORES)))
    request = Request(0, *data.draw(lengths))
    assert not isinstance(deployment.pace, BlockPace)
    setting = Setting(deployment.pace, engine)
    return request, policy(name).schedule(request, deployment.scenario.decode, setting)


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_a_schedule_emits_the_output(name: str, data: st.DataObject) -> None:
    """Prefill and steps emit the output's tokens exactly, never a negative number."""
    request, schedule = scheduled(name, data)

    assert (schedule.emitted_tokens >= 0).all()
    emitted = int(schedule.emitted_tokens.sum()) + schedule.prefill_emits_tokens
    assert emitted == request.output_tokens


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_the_last_step_emits(name: str, data: st.DataObject) -> None:
    """No step follows the one that completes the output."""
    _, schedule = scheduled(name, data)

    assert schedule.n_steps == 0 or schedule.emitted_tokens[-1] > 0


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_loads_are_counts_of_one_shape(name: str, data: st.DataObject) -> None:
    """Loads are whole, not negative, one column per step; every pass of a step has queries."""
    _, schedule = scheduled(name, data)

    assert schedule.loads.shape == (len(schedule.passes), N_LOADS, schedule.n_steps)
    assert np.issubdtype(schedule.loads.dtype, np.integer)
    assert (schedule.loads >= 0).all()
    assert (schedule.loads[:, QUERY] > 0).all()
    assert all(step_pass.launches >= 1 for step_pass in schedule.passes)


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_head_rows_and_adapter_rows_are_among_the_queries(name: str, data: st.DataObject) -> None:
    """The LM head and the adapter see no more rows than a pass has queries."""
    _, schedule = scheduled(name, data)

    assert (schedule.loads[:, LOGITS] <= schedule.loads[:, QUERY]).all()
    assert (schedule.loads[:, ADAPTER] <= schedule.loads[:, QUERY]).all()


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_every_token_has_a_logit_row(name: str, data: st.DataObject) -> None:
    """The target reads at least as many LM-head rows in a step as the step emits tokens."""
    _, schedule = scheduled(name, data)
    target = [i for i, p in enumerate(schedule.passes) if p.stack == "target"]
    rows = schedule.loads[target, LOGITS].sum(axis=0)

    assert (schedule.emitted_tokens <= rows).all()


@pytest.mark.parametrize(
    ("name", "most", "refused"),
    [
        # Three nodes and the token that verification samples; Uno's draft adds a free one.
        ("uno-tree", 5.0, 5.5),
        ("eagle3-tree", 4.0, 5.5),
        ("eagle3-tree", 4.0, 4.5),
    ],
)
def test_a_tree_emits_no_more_than_its_nodes(name: str, most: float, refused: float) -> None:
    """Deep trees of three nodes emit what three accepted nodes give, and no more is taken."""
    decode = {"policy": name, "block": 8, "tree_size": 3}

    deployed(document(name, decode | {"tokens_per_step": most}))
    with pytest.raises(DocumentError, match="tokens_per_step"):
        deployed(document(name, decode | {"tokens_per_step": refused}))


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_the_cache_holds_only_what_was_put_there(name: str, data: st.DataObject) -> None:
    """A pass finds in the cache at most the tokens known before it, and never the whole output."""
    request, schedule = scheduled(name, data)
    emitted = schedule.emitted_tokens
    known = request.prompt_tokens + schedule.prefill_emits_tokens + np.cumsum(emitted) - emitted
    for step_pass in schedule.passes:
        assert (step_pass.loads[CONTEXT] <= known).all()
        assert (step_pass.loads[CONTEXT] < request.total_tokens).all()
        known = known + step_pass.launches * step_pass.loads[QUERY]


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_the_cache_never_shrinks(name: str, data: st.DataObject) -> None:
    """Tokens in the cache do not go away from step to step."""
    _, schedule = scheduled(name, data)

    assert (np.diff(schedule.loads[:, CONTEXT]) >= 0).all()


@pytest.mark.parametrize("name", POLICIES)
@some
@given(data=st.data())
def test_prompts_are_covered_by_prefill_and_first_step(name: str, data: st.DataObject) -> None:
    """What the prefill leaves of a prompt is less than the queries of the first step."""
    request, schedule = scheduled(name, data)

    left = request.prompt_tokens - schedule.prefill_tokens
    assert left >= 0
    assert left == 0 or left < schedule.loads[0, QUERY, 0]


@pytest.mark.parametrize("name", POLICIES)
def test_requests_of_a_run_share_their_passes(name: str) -> None:
    """Schedules of different requests have the same passes, so that they can share launches."""
    deployment = deployed(document(name))
    first, second = (deployment.schedule(Request(i, 10 + 50 * i, 9 + 70 * i)) for i in (0, 1))

    assert [p.shape for p in first.passes] == [p.shape for p in second.passes]


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_dense_cache_is_read_whole(name: str, engine: str) -> None:
    """Dense engines read the finished sequence's pages in every pass, paged ones what is there."""
    deployment = deployed(document(name), engine=engine)
    request = Request(0, 70, 50)

    schedule = deployment.schedule(request)

    reach = schedule.loads[:, CONTEXT] + schedule.loads[:, QUERY]
    allocated = deployment.engine.paged_tokens(request.total_tokens)
    if deployment.engine.kv_layout == "dense":
        assert (reach == allocated).all()
    else:
        assert schedule.loads[:, CONTEXT].max() < request.total_tokens


@pytest.mark.parametrize("name", [p for p in POLICIES if fitting_trace(p)])
def test_draws_belong_to_the_request(name: str) -> None:
    """A request draws the same whatever its prompt, others differ, and so do other seeds."""
    decode = fitting_decode(name, trace=fitting_trace(name))
    deployment = deployed(document(name, decode))
    requests = [
        Request(0, 10, 90),
        Request(0, 50, 90),
        Request(1, 10, 90),
        Request(0, 10, 90, seed=1),
    ]

    base, longer, other, reseeded = (deployment.schedule(r).emitted_tokens for r in requests)

    assert np.array_equal(base, longer)
    assert not np.array_equal(base, other)
    assert not np.array_equal(base, reseeded)
