"""Statistics of traces of iterations: by hand, against plain loops, and against closed forms."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.traces.made_iterations import geometric, iteration_trace
from tests.traces.tiny_iterations import put
from traces.iteration_statistics import summary, truncated
from traces.iteration_trace import read_iteration_trace
from traces.uncut_iterations import uncut_iterations


def test_a_trace_by_hand(tmp_path: Path) -> None:
    """Every statistic of the tiny trace is what one counts in its tables."""
    found = summary(read_iteration_trace(put(tmp_path / "tiny")))
    assert (found["requests"], found["output_tokens"], found["forwards"]) == (4, 22, 16)
    assert (found["iterations"], found["iterations_uncut"]) == (6, 4)
    # Accepted are 2, 0, 1 and 3 in those that are not cut, 3 and 2 in the others.
    assert found["tokens_per_step"] == pytest.approx(2 + 6 / 4)
    assert found["tokens_per_step_with_cut"] == pytest.approx(2 + 11 / 6)
    assert found["tokens_per_step_kept"] == pytest.approx((4 + 2 + 3 + 4 + 5 + 3) / 6)
    assert found["tokens_per_forward"] == pytest.approx(21 / 12)
    # Requests 0 and 2 have sums 3 and 3, where their numbers would give 4.5 and 1.5.
    assert found["tokens_per_step_standard_error"] == pytest.approx((2 * 4.5) ** 0.5 / 4)
    assert found["acceptance_by_position"] == [0.75, 0.5, 0.25]
    assert found["iterations_by_accepted"] == [1, 1, 1, 1]
    assert (found["none_accepted"], found["all_accepted"]) == (0.25, 0.25)
    assert found["lag_1_correlation"] == pytest.approx(-1.0)
    assert found["intraclass_correlation"] == pytest.approx(4 / 7)
    assert found["verify_nodes_per_output_token"] == pytest.approx(18 / 22)
    assert (found["accuracy"], found["valid"]) == (0.5, 1.0)


accepting = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 4)), max_size=5),
    min_size=1,
    max_size=5,
)


@settings(max_examples=50)
@given(accepting, st.integers(1, 2))
def test_statistics_are_loops_over_iterations(
    requests: list[list[tuple[int, int, int]]], guaranteed: int
) -> None:
    """Any accepted drafts, drafts beyond them, and nodes beyond these; requests of nothing too."""
    flat = [each for mine in requests for each in mine]
    trace = iteration_trace(
        [[accepted for accepted, *_ in mine] for mine in requests],
        [accepted + more for accepted, more, _ in flat],
        guaranteed=guaranteed,
        nodes=[sum(each) for each in flat],
    )
    found = summary(trace)
    if not flat:
        names = ("tokens_per_step", "tokens_per_step_kept", "tokens_per_forward", "none_accepted")
        assert all(found[name] is None for name in names)
        assert (found["acceptance_by_position"], found["iterations_by_accepted"]) == ([], [])
        return
    longest = max(accepted + more for accepted, more, _ in flat)
    for j in range(1, longest + 1):
        share = sum(accepted >= j for accepted, *_ in flat) / len(flat)
        assert found["acceptance_by_position"][j - 1] == pytest.approx(share)
    assert found["iterations_by_accepted"] == [
        sum(accepted == j for accepted, *_ in flat) for j in range(longest + 1)
    ]
    total = sum(accepted for accepted, *_ in flat) + guaranteed * len(flat)
    assert found["tokens_per_step"] == pytest.approx(total / len(flat))
    assert found["tokens_per_step_kept"] == pytest.approx(total / len(flat))
    assert found["tokens_per_forward"] == pytest.approx(total / (2 * len(flat)))
    nodes = sum(sum(each) for each in flat)
    tokens = found["output_tokens"]
    assert found["verify_nodes_per_output_token"] == (
        pytest.approx(nodes / tokens) if tokens else None
    )
    drafting = [each for each in flat if each[0] + each[1] > 0]
    none, every = (
        (sum(a == 0 for a, *_ in drafting), sum(more == 0 for _, more, _ in drafting))
        if drafting
        else (None, None)
    )
    for name, count in (("none_accepted", none), ("all_accepted", every)):
        assert found[name] == (None if count is None else pytest.approx(count / len(drafting)))


def test_constant_acceptance_has_its_closed_forms() -> None:
    """S_j is a^j, the mean 2 + a (1 - a^7) / (1 - a), with the error that it says."""
    alpha, drafts = 0.8, 7
    drawn = geometric(alpha, drafts, requests=400, iterations=50, seed=1)
    found = summary(iteration_trace(drawn, drafts, guaranteed=2))
    expected = 2 + alpha * (1 - alpha**drafts) / (1 - alpha)
    error = found["tokens_per_step_standard_error"]
    assert abs(found["tokens_per_step"] - expected) < 4 * error
    # The variance of min(geometric, 7), from its law.
    law = [alpha**j * (1 - alpha) for j in range(drafts)] + [alpha**drafts]
    mean = sum(j * p for j, p in enumerate(law))
    variance = sum((j - mean) ** 2 * p for j, p in enumerate(law))
    assert error == pytest.approx((variance / 20_000) ** 0.5, rel=0.15)
    survival = [alpha**j for j in range(1, drafts + 1)]
    assert found["acceptance_by_position"] == pytest.approx(survival, abs=0.015)
    assert found["none_accepted"] == pytest.approx(1 - alpha, abs=0.015)
    assert found["all_accepted"] == pytest.approx(alpha**drafts, abs=0.015)
    assert found["lag_1_correlation"] == pytest.approx(0.0, abs=0.03)


def test_a_smaller_block_by_hand(tmp_path: Path) -> None:
    """2, 0, 1 and 3 accepted of 3 drafts at block 4, and 3 and 2 that were cut to 4 and 3 tokens.

    With 2 drafts the first of those is whole, with 1 draft both are.
    """
    trace = read_iteration_trace(put(tmp_path / "tiny"))
    found = [truncated(trace, block) for block in (1, 2, 3, 4)]
    assert found == pytest.approx([2.0, 2 + 5 / 6, 2 + 7 / 5, 2 + 6 / 4])


@pytest.mark.parametrize("offset", [-1, 0])
def test_a_smaller_block_of_constant_acceptance(offset: int) -> None:
    """Read at a smaller block, a trace has the mean of that block's closed form."""
    alpha, block = 0.7, 8
    drawn = geometric(alpha, block + offset, requests=400, iterations=50, seed=2)
    trace = iteration_trace(drawn, block + offset, block_tokens=block)
    for smaller in range(1, block + 1):
        drafts = smaller + offset
        closed = 1 + alpha * (1 - alpha**drafts) / (1 - alpha)
        assert truncated(trace, smaller) == pytest.approx(closed, rel=0.02)


@settings(max_examples=50)
@given(st.lists(st.lists(st.integers(0, 7), max_size=6), min_size=1, max_size=4), st.integers(1, 8))
def test_truncation_is_a_loop(accepted: list[list[int]], block: int) -> None:
    """No iteration accepts more than the smaller block drafts; its own block changes nothing."""
    trace = iteration_trace(accepted, 7, block_tokens=8)
    flat = [min(each, block - 1) for mine in accepted for each in mine]
    expected = 1 + sum(flat) / len(flat) if flat else None
    assert truncated(trace, block) == (None if expected is None else pytest.approx(expected))
    assert truncated(trace, 8) == summary(trace)["tokens_per_step"]


def test_what_cannot_be_read_at_a_smaller_block() -> None:
    """A larger block, none at all, and trees; the rule and the value are told."""
    chain = iteration_trace([[1, 2]], 3)
    for block in (0, 5, -1):
        with pytest.raises(ValueError, match=f"is read at blocks 1 to 4, got {block}"):
            truncated(chain, block)
    tree = iteration_trace([[1, 2]], 3, nodes=6, policy="uno-tree")
    with pytest.raises(ValueError, match="got the trees of uno-tree"):
        truncated(tree, 2)


def test_leaving_out_the_cut_ones_counts_too_little() -> None:
    """An end cuts long iterations more often than short ones.

    Renewal theory: variance / mean / iterations are missing without them, nothing with them.
    """
    drawn, limit = np.random.default_rng(3).binomial(7, 0.6, (3000, 30)), 60
    emitted = drawn + 2
    before = np.cumsum(emitted, axis=1) - emitted
    kept = np.minimum(emitted, limit - before)
    accepted, shortened = (
        [[int(x) for x in mine[there]] for mine, there in zip(rows, before < limit, strict=True)]
        for rows in (drawn, kept)
    )
    found = summary(iteration_trace(accepted, 7, guaranteed=2, emitted=shortened))
    mean, variance = 2 + 7 * 0.6, 7 * 0.6 * 0.4
    assert found["tokens_per_step_with_cut"] == pytest.approx(mean, abs=0.02)
    missing = variance / mean / (found["iterations"] / 3000)
    assert mean - found["tokens_per_step"] == pytest.approx(missing, rel=0.4)
    assert found["tokens_per_step_kept"] < found["tokens_per_step"]


def test_uncut_iterations_keep_their_requests(tmp_path: Path) -> None:
    """The two that are cut are left out, and what is left is of requests 0 and 2."""
    uncut = uncut_iterations(read_iteration_trace(put(tmp_path / "tiny")))
    assert uncut.request.tolist() == [0, 0, 0, 2]
    assert uncut.accepted.tolist() == [2, 0, 1, 3]
    assert not uncut.has_trees
