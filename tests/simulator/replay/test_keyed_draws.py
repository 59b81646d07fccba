"""Keyed draws: what a key says, whoever asks in whatever order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from simulator.replay import keyed_draws
from tests.simulator.replay.naive_blocks import keyed

PARTS = st.lists(st.integers(0, 2**31 - 1), min_size=1, max_size=5)


@given(limit=st.integers(1, 10_000), key=PARTS)
def test_a_draw_is_splitmix64_of_its_key(limit: int, key: list[int]) -> None:
    """As in plain integers without overflow."""
    assert int(keyed_draws.below(limit, *key)) == keyed(limit, *key)


def test_the_published_sequence() -> None:
    """A single part 0 is the first output of SplitMix64 from seed 0."""
    assert int(keyed_draws.below(2**63, 0)) == 0xE220A8397B1DCDAF % 2**63


@given(limits=st.lists(st.integers(1, 50), min_size=1, max_size=20), part=st.integers(0, 2**31))
def test_many_keys_at_once_are_each_of_them_alone(limits: list[int], part: int) -> None:
    """Parts broadcast, and a limit belongs to its key."""
    numbers = np.arange(len(limits))

    drawn = keyed_draws.below(np.array(limits), part, numbers)

    assert drawn.tolist() == [keyed(limit, part, number) for number, limit in enumerate(limits)]
    assert (drawn < limits).all()
    assert (drawn >= 0).all()


@pytest.mark.parametrize("place", [0, 1, 2])
def test_consecutive_keys_are_evenly_spread(place: int) -> None:
    """Any part may count on; every outcome is as likely, and neighbours are independent."""
    key: list[int | np.ndarray[tuple[int], np.dtype[np.int64]]] = [3, 5, 7]
    key[place] = np.arange(60_000)

    drawn = keyed_draws.below(6, *key)

    assert chisquare(np.bincount(drawn, minlength=6)).pvalue > 0.001
    both = np.bincount(drawn[:-1] * 6 + drawn[1:], minlength=36)
    assert chisquare(both).pvalue > 0.001


def test_parts_are_not_exchanged() -> None:
    """(1, 2) and (2, 1) are two keys, and so are (0,) and (0, 0)."""
    drawn = {keyed(2**60, *key) for key in ((1, 2), (2, 1), (0,), (0, 0), (3,))}
    found = {int(keyed_draws.below(2**60, *key)) for key in ((1, 2), (2, 1), (0,), (0, 0), (3,))}

    assert len(found) == 5
    assert found == drawn
