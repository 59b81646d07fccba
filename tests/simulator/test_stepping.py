"""Steps taken many at once against the plain loop over rows and steps."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.batching import batching
from simulator.deployment import Deployment
from simulator.records import RunRecords
from simulator.request import Request
from tests.strategies import (
    BATCHINGS,
    ENGINES,
    POLICIES,
    Played,
    decodes,
    deployed,
    document,
    play,
)

REL = 1e-9
"""Clock readings are sums of thousands of steps; one reading differs in the last bits."""

few = settings(max_examples=6)


@st.composite
def servings(draw: st.DrawFn, mode: str) -> dict[str, Any]:
    """Any way to prefill, to grant the cache and to pad."""
    orders = ["first", "interleaved"]
    if not batching(mode).WAITS_FOR_BLOCKS:
        orders.append("mixed")
    return {
        "prefill_order": draw(st.sampled_from(orders)),
        "prefill_chunk_tokens": draw(st.sampled_from(["whole", 7, 32])),
        "prefill_batch_tokens": draw(st.sampled_from([24, 64, 4096])),
        "kv_page_tokens": draw(st.sampled_from([1, 8, 16])),
        "kv_watermark": draw(st.sampled_from([0.0, 0.1])),
        "prefix_caching": draw(st.booleans()),
        "graph_batches": draw(st.sampled_from([[], [1, 2, 4, 8]])),
    }


@st.composite
def loads(draw: st.DrawFn) -> list[Request]:
    """Requests that arrive at any time, some of them with the beginning of another's prompt."""
    arrivals = draw(
        st.lists(st.floats(0.0, 0.2) | st.sampled_from([0.0, 0.05]), min_size=1, max_size=9)
    )
    return [
        Request(
            index,
            prompt_tokens=draw(st.integers(1, 90)),
            output_tokens=draw(st.integers(1, 40)),
            arrival_s=arrival,
            prefix=draw(st.sampled_from([(), (1,), (1, 2), (1, 2, 3), (1, 4), (5, 6, 7, 8)])),
            prefix_block_tokens=16,
        )
        for index, arrival in enumerate(sorted(arrivals))
    ]


def assert_equal_records(bulk: RunRecords, plain: RunRecords) -> None:
    """The same requests, steps, rejections and emissions, to rounding."""
    assert len(bulk.requests) == len(plain.requests)
    assert len(bulk.steps) == len(plain.steps)
    for mine, theirs in ((bulk.requests, plain.requests), (bulk.steps, plain.steps)):
        for name in theirs.types:
            np.testing.assert_allclose(
                mine.column(name), theirs.column(name), rtol=REL, atol=1e-12, err_msg=name
            )
    assert list(bulk.rejected) == list(plain.rejected)


def both(deployment: Deployment, requests: list[Request], capacity_bytes: float) -> list[Played]:
    """The run in bulk and one by one."""
    return [
        play(deployment, requests, capacity_bytes, one_by_one=plain, is_open=True)
        for plain in (False, True)
    ]


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_bulk_steps_are_the_plain_loop(policy: str, mode: str, data: st.DataObject) -> None:
    """Requests, steps and where the time went are those of the loop that looks at every row."""
    admission = data.draw(st.sampled_from(["finished", "growing"]))
    engine = data.draw(st.sampled_from([name for name in ENGINES if name != "dinfer"]))
    deployment = deployed(
        document(policy, data.draw(decodes(policy))),
        engine=engine,
        batching={"mode": mode, "max_batch": data.draw(st.integers(1, 6))},
        serving=data.draw(servings(mode)) | {"kv_admission": admission},
        parallel={"tp": data.draw(st.sampled_from([1, 2]))},
    )
    requests = data.draw(loads())
    sizes = sorted(float(deployment.held_bytes(r.total_tokens)) for r in requests)
    capacity = data.draw(st.sampled_from([1.0, 1.4, 2.5, 100.0])) * sizes[-1]

    bulk, plain = both(deployment, requests, capacity)

    assert_equal_records(bulk.replica.records, plain.replica.records)
    mine, theirs = bulk.replica.account, plain.replica.account
    assert mine.total_s == pytest.approx(theirs.total_s, rel=REL)
    for name in ("seconds_by_op", "seconds_by_bound", "seconds_by_kernel"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-15)
