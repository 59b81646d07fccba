"""Resampled replay: long and many requests drawn from a trace have the trace's statistics."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.replay.iteration_pace import IterationPace
from simulator.request import Request
from tests.simulator.replay.shipped_iterations import NAMES, IntArray, shipped
from traces.columns import flags, numbers
from traces.dependence import clustered_standard_error, lag_1_correlation
from traces.iteration_trace import IterationTrace

SPECULATIVE = [name for name in NAMES if not name.startswith("ref-ar")]
LONG = 200_000


def pace_of(name: str, block: int | None = None) -> IterationPace:
    """The pace of a shipped trace, at its own block or a smaller one."""
    trace = shipped(name)
    return IterationPace(trace, block or trace.manifest.block_tokens)


def drawn(pace: IterationPace, n_tokens: int, index: int = 0, seed: int = 0) -> IntArray:
    """Tokens at each step of a request that is no captured one."""
    request = Request(index, 7, 1 + n_tokens, seed=seed)
    return pace.steps(request).emitted_tokens


def whole_by_request(trace: IterationTrace) -> list[list[int]]:
    """Tokens of the iterations that are not cut, in order, of each request that has any."""
    whole = ~flags(trace.iterations, "cut")
    request, emitted = (numbers(trace.iterations, name)[whole] for name in ("request", "emitted"))
    return [
        [int(tokens) for _, tokens in group]
        for _, group in itertools.groupby(
            zip(request, emitted, strict=True), key=lambda pair: pair[0]
        )
    ]


def endless_correlation(donors: list[list[int]]) -> float:
    """Of neighbours in an endless row of donors: those inside one, and of one's end and a start."""
    values = np.concatenate(donors)
    inside = sum(float(np.dot(donor[1:], donor[:-1])) for donor in donors)
    ends, starts = (np.mean([donor[at] for donor in donors]) for at in (-1, 0))
    product = (inside + len(donors) * ends * starts) / len(values)
    return float((product - values.mean() ** 2) / values.var())


@pytest.mark.parametrize("name", SPECULATIVE)
def test_long_requests_have_the_statistics_of_the_trace(name: str) -> None:
    """Mean, distribution of accepted length and correlation of neighbours are the source's.

    Donors are drawn with replacement, so a mean is off by the clustered standard error of as many
    donors as were drawn; shares and the correlation by no more than a few hundredths. Where one
    donor follows another, neighbours are independent.
    """
    trace = shipped(name)
    whole = ~flags(trace.iterations, "cut")
    request, emitted = (numbers(trace.iterations, n)[whole] for n in ("request", "emitted"))
    error = clustered_standard_error(emitted, request)
    assert error is not None

    found = drawn(pace_of(name), LONG)[:-1]

    scale = np.sqrt(len(emitted) / len(found))
    assert found.mean() == pytest.approx(emitted.mean(), abs=4.5 * error * scale)
    most = int(emitted.max()) + 1
    shares = [np.bincount(part, minlength=most) / len(part) for part in (found, emitted)]
    assert np.abs(np.cumsum(shares[0] - shares[1])).max() < 0.03
    if emitted.var() > 0.01:
        ours = lag_1_correlation(found, np.zeros_like(found))
        assert ours == pytest.approx(endless_correlation(whole_by_request(trace)), abs=0.03)


@pytest.mark.parametrize("name", ["ref-uno-linear-b8-t1", "ref-eagle3-linear-b4-t0"])
@pytest.mark.parametrize("index", range(5))
def test_donors_are_walked_in_order(name: str, index: int) -> None:
    """A drawn request is whole requests of the trace, one behind the other, the last one cut."""
    donors = whole_by_request(shipped(name))
    left = drawn(pace_of(name), 2000, index).tolist()

    def fits(at: int) -> bool:
        """Whether the rest from *at* on can be split into donors."""
        stack = [at]
        while stack:
            at = stack.pop()
            for donor in donors:
                part = left[at : at + len(donor)]
                if part == donor[: len(part)] and at + len(donor) < len(left):
                    stack.append(at + len(donor))
                elif part[:-1] == donor[: len(part) - 1] and part[-1] <= donor[len(part) - 1]:
                    return True
        return False

    assert fits(0)


@given(
    n_tokens=st.integers(0, 600),
    index=st.integers(0, 10**6),
    seed=st.integers(0, 2**32 - 1),
    block=st.integers(2, 16),
)
def test_any_output_comes_out(n_tokens: int, index: int, seed: int, block: int) -> None:
    """All tokens, at least the guaranteed ones in a step that is not the last, none too many."""
    emitted = drawn(pace_of("ref-uno-linear-b16-t1", block), n_tokens, index, seed)

    assert emitted.sum() == n_tokens
    assert (emitted >= 1).all()
    assert (emitted[:-1] >= 2).all()
    assert emitted.max(initial=0) <= block + 1


@given(n_tokens=st.integers(1, 600), more=st.integers(1, 600), index=st.integers(0, 10**6))
def test_draws_are_keyed_by_the_request(n_tokens: int, more: int, index: int) -> None:
    """Arrival and prompt change nothing, and a longer output begins as the shorter one does."""
    pace = pace_of("ref-uno-linear-b8-t1")
    short = pace.steps(Request(index, 3, 1 + n_tokens, arrival_s=0.0))
    late = pace.steps(Request(index, 900, 1 + n_tokens, arrival_s=77.0))
    longer = drawn(pace, n_tokens + more, index)

    assert short.emitted_tokens.tolist() == late.emitted_tokens.tolist()
    head = len(short.emitted_tokens) - 1
    assert longer[:head].tolist() == short.emitted_tokens[:head].tolist()


def test_requests_and_seeds_draw_their_own() -> None:
    """Other indices and other seeds walk other donors."""
    pace = pace_of("ref-uno-linear-b8-t1")
    base, other, reseeded = (drawn(pace, 400, *key) for key in ((0, 0), (1, 0), (0, 1)))

    assert base.tolist() != other.tolist()
    assert base.tolist() != reseeded.tolist()


def test_trees_bring_the_drafts_that_were_verified() -> None:
    """Each step of a drawn tree verifies and moves what its iteration did."""
    trace = shipped("ref-eagle3-tree-b8-v16-t1")
    steps = pace_of("ref-eagle3-tree-b8-v16-t1").steps(Request(0, 7, 500))

    assert set(np.asarray(steps.verified_drafts(99)).tolist()) == {16}
    assert set(numbers(trace.iterations, "nodes").tolist()) == {16}
    assert steps.moved_tokens.tolist() == steps.emitted_tokens.tolist()


def test_long_requests_are_drawn_quickly() -> None:
    """The steps of 8192 tokens take well under 2 ms."""
    pace = pace_of("ref-uno-linear-b8-t1")
    request = Request(0, 7, 8192)
    pace.steps(request)

    seconds = []
    for _ in range(20):
        begin = time.perf_counter()
        pace.steps(request)
        seconds.append(time.perf_counter() - begin)

    assert min(seconds) < 2e-3
