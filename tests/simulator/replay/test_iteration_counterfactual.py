"""Counterfactual replay: a chain at a smaller block, held against captures at that block."""

import itertools

import numpy as np
import pytest

from simulator.replay.iteration_pace import TRUNCATION_ERROR, IterationPace
from simulator.replay.iteration_replay import replay_iterations
from simulator.replay.iteration_steps import whole_steps
from simulator.request import Request
from tests.simulator.replay.shipped_iterations import IntArray, shipped
from traces.columns import numbers
from traces.dependence import clustered_standard_error
from traces.iteration_statistics import tokens_per_forward, truncated

CHAINS = ("uno-linear", "eagle3-linear", "dflash", "self-speculation")
# (policy, temperature, block, mean tokens per forward) of captures that are not shipped: the same
# 128 problems at batch 32, seed 0, by the same drafters.
CAPTURED = [
    ("uno-linear", 0, 3, 1.8950),
    ("uno-linear", 0, 6, 2.8594),
    ("uno-linear", 0, 12, 3.9578),
    ("uno-linear", 1, 3, 1.8170),
    ("uno-linear", 1, 6, 2.5874),
    ("uno-linear", 1, 12, 3.4389),
    ("eagle3-linear", 0, 3, 0.9714),
    ("eagle3-linear", 0, 6, 0.9457),
    ("eagle3-linear", 0, 12, 0.8918),
    ("dflash", 0, 3, 1.4758),
    ("dflash", 0, 6, 2.8830),
    ("dflash", 0, 12, 5.5295),
]


def measured(policy: str, temperature: int, block: int) -> float:
    """Mean tokens per forward of a shipped capture."""
    value = tokens_per_forward(shipped(f"ref-{policy}-b{block}-t{temperature}"))
    assert value is not None
    return value


ALL = CAPTURED + [
    (policy, temperature, block, measured(policy, temperature, block))
    for policy in CHAINS
    for temperature in (0, 1)
    for block in (2, 4, 8)
]


def replayed(policy: str, temperature: int, block: int) -> float:
    """Mean tokens per forward read off the capture at block 16."""
    found = replay_iterations(shipped(f"ref-{policy}-b16-t{temperature}"), {"block": block})
    assert found.replay == "counterfactual"
    assert found.tokens_per_forward is not None
    return found.tokens_per_forward


@pytest.mark.parametrize(("policy", "temperature", "block", "captured"), ALL)
def test_a_smaller_block_is_told_from_a_larger_one(
    policy: str, temperature: int, block: int, captured: float
) -> None:
    """Mean tokens per forward lie within 5 % of what a capture at that block has."""
    assert replayed(policy, temperature, block) == pytest.approx(captured, rel=0.05)


def test_the_error_told_is_the_error_made() -> None:
    """Nine in ten of these errors are no larger than the interval takes them to be."""
    errors = [abs(replayed(*case[:3]) / case[3] - 1) for case in ALL]

    assert np.percentile(errors, 90) <= TRUNCATION_ERROR


@pytest.mark.parametrize("temperature", [0, 1])
def test_settings_rank_as_they_do_when_captured(temperature: int) -> None:
    """Of any two settings that differ by 5 % or more the replay prefers the one that is better."""
    cases = [case for case in ALL if case[1] == temperature]
    found = {case[:3]: replayed(*case[:3]) for case in cases}

    for one, other in itertools.combinations(cases, 2):
        if abs(one[3] / other[3] - 1) >= 0.05:
            assert (found[one[:3]] > found[other[:3]]) == (one[3] > other[3])


def through(accepted: IntArray, drafts: int, guaranteed: int, n_tokens: int) -> list[int]:
    """The definition, token by token: cut short, again and again, until all are out."""
    emitted: list[int] = []
    for one in itertools.cycle(accepted.tolist()):
        if sum(emitted) >= n_tokens:
            break
        emitted.append(min(min(one, drafts) + guaranteed, n_tokens - sum(emitted)))
    return emitted


@pytest.mark.parametrize("block", [2, 5, 15])
def test_a_repeated_request_goes_through_its_own_iterations(block: int) -> None:
    """Each emits what it did up to the smaller block's drafts, the last as before its cut."""
    trace = shipped("ref-uno-linear-b16-t1")
    request, accepted = (numbers(trace.iterations, name) for name in ("request", "accepted"))
    pace = IterationPace(trace, block, repeats=True)

    for row, number in enumerate(numbers(trace.requests, "request").tolist()):
        steps = pace.steps(Request(3, 9, 71, source=row))
        expected = through(accepted[request == number], block - 1, 2, 70)
        assert steps.emitted_tokens.tolist() == expected
        assert set(steps.verified_drafts(0).tolist()) == {block - 1}  # type: ignore[union-attr]


@pytest.mark.parametrize("policy", CHAINS)
@pytest.mark.parametrize("block", [2, 7, 16])
def test_what_is_drawn_from_has_the_truncated_mean(policy: str, block: int) -> None:
    """The mean is that of whole iterations cut short, its spread that of requests as clusters."""
    trace = shipped(f"ref-{policy}-b16-t1")
    pace, whole = IterationPace(trace, block), whole_steps(trace, block)
    error = clustered_standard_error(whole.emitted_tokens, whole.row)
    assert error is not None

    assert pace.mean_tokens == pytest.approx(truncated(trace, block), rel=1e-12)
    assert pace.sampling_error == pytest.approx(1.645 * error / pace.mean_tokens, rel=1e-12)
    assert pace.relative_error >= pace.sampling_error
