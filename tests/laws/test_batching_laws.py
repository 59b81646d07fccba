"""Laws of every batching module in the folder."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.batching import batching
from tests.strategies import BATCHINGS

counts = st.integers(1, 1000)


@pytest.mark.parametrize("mode", BATCHINGS)
@given(live=st.integers(0, 1000), room=st.integers(0, 1000))
def test_the_batch_stays_within_its_size(mode: str, live: int, room: int) -> None:
    """Those in the batch and those who may join are never more than the batch holds."""
    admitted = batching(mode).admits(live, live + room)

    assert 0 <= admitted <= room or live == room == 0


@pytest.mark.parametrize("mode", BATCHINGS)
@given(max_batch=counts)
def test_an_empty_batch_admits_somebody(mode: str, max_batch: int) -> None:
    """With nobody in the batch it can be filled: no request waits forever."""
    assert batching(mode).admits(0, max_batch) == max_batch


@pytest.mark.parametrize("mode", BATCHINGS)
@given(finished=st.integers(0, 1000), running=st.integers(0, 1000))
def test_only_finished_requests_leave(mode: str, finished: int, running: int) -> None:
    """At most the finished ones leave, and all of them once nobody is running."""
    leaving = batching(mode).leaves(finished, finished + running)

    assert 0 <= leaving <= finished
    assert leaving == finished or running


def test_an_unknown_mode_is_refused() -> None:
    """A mode without a module is an error, not a default."""
    with pytest.raises(KeyError):
        batching("lifo")
