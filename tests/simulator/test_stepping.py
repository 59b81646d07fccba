"""Steps taken many at once against the plain loop over rows and steps."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator import library
from simulator.deployment import Deployment
from simulator.request import Request
from tests.laws.checks import the_same_to_rounding
from tests.strategies import (
    BATCHINGS,
    ENGINES,
    POLICIES,
    Played,
    arriving_requests,
    decodes,
    deployed,
    document,
    files_read_once,
    longest_bytes,
    play,
    servings,
)

REL = 1e-9
"""Clock readings are sums of thousands of steps; one reading differs in the last bits."""

few = settings(max_examples=3)


@pytest.fixture(scope="module", autouse=True)
def _files_are_read_once() -> Iterator[None]:
    with files_read_once():
        yield


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
    engine = data.draw(st.sampled_from(ENGINES))
    is_dense = library.ENGINES.get(engine).kv_layout == "dense"
    whole = {"kv_admission": "finished"} if is_dense else {}
    deployment = deployed(
        document(policy, data.draw(decodes(policy))),
        engine=engine,
        batching={"mode": mode, "max_batch": data.draw(st.integers(1, 6))},
        serving=data.draw(servings(policy, mode)) | whole,
        parallel={"tp": data.draw(st.sampled_from([1, 2]))},
    )
    requests = data.draw(arriving_requests(most=5))
    capacity = data.draw(st.sampled_from([1.0, 1.4, 2.5, 100.0]))

    bulk, plain = both(deployment, requests, capacity * longest_bytes(deployment, requests))

    the_same_to_rounding(bulk.replica.records, plain.replica.records)
    mine, theirs = bulk.replica.account, plain.replica.account
    assert mine.total_s == pytest.approx(theirs.total_s, rel=REL)
    sizes, expected = mine.sizes.by_op, theirs.sizes.by_op
    ranges = {key: asked for key, (_, asked) in expected.items() if asked}
    assert sizes.keys() >= ranges.keys()
    for key, asked in ranges.items():
        for size, span in asked.items():
            assert sizes[key][1][size] == pytest.approx(span, rel=REL), (key, size)
    for name in ("seconds_by_op", "seconds_by_bound", "seconds_by_kernel"):
        assert getattr(mine, name) == pytest.approx(getattr(theirs, name), rel=1e-9, abs=1e-15)
