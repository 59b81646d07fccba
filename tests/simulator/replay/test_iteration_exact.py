"""Exact replay: a trace under its own policy and parameters is what was captured, row by row."""

import numpy as np
import pytest

from simulator.replay.iteration_pace import IterationPace, decoded_tokens
from simulator.replay.iteration_replay import replay_iterations
from simulator.request import Request
from tests.simulator.replay.shipped_iterations import (
    LOADS,
    NAMES,
    forwards_of,
    kinds_of,
    shipped,
)
from traces.columns import among, numbers
from traces.iteration_statistics import summary

KEPT = (
    "requests",
    "output_tokens",
    "forwards",
    "batch_forwards",
    "tokens_per_step",
    "tokens_per_forward",
    "accuracy",
    "valid",
)


def test_there_are_traces_of_every_policy() -> None:
    """Whatever is said below is said of all seven speculative policies."""
    policies = {shipped(name).manifest.policy for name in NAMES}

    assert policies == {
        "ar",
        "uno-linear",
        "uno-tree",
        "eagle3-linear",
        "eagle3-tree",
        "dflash",
        "self-speculation",
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_iteration_is_the_captured_one(name: str) -> None:
    """Count, emitted tokens and place of the iterations of each request equal the table's."""
    trace = shipped(name)
    request = numbers(trace.iterations, "request")
    prefix, emitted = (numbers(trace.iterations, n) for n in ("prefix_tokens", "emitted"))

    replayed = replay_iterations(trace, {}).schedules

    prompts = numbers(trace.requests, "prompt_tokens")
    for row, number in enumerate(numbers(trace.requests, "request")):
        own = request == number
        found = replayed[row].emitted_tokens
        assert found.tolist() == emitted[own].tolist()
        begins = prompts[row] + np.cumsum(found) - found
        assert begins.tolist() == prefix[own].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_every_forward_is_the_captured_one(name: str) -> None:
    """Kind, queries, prefix, logits, adapter, features and moves of each forward, in order."""
    trace = shipped(name)
    decodes = ~among(trace.steps, "kind", "prefill")
    request, drafts = numbers(trace.steps, "request"), among(trace.steps, "kind", "draft")
    table = np.stack([numbers(trace.steps, column) for column in LOADS], axis=1)

    replayed = replay_iterations(trace, {}).schedules

    prompts = numbers(trace.requests, "prompt_tokens").tolist()
    for row, number in enumerate(numbers(trace.requests, "request")):
        own = decodes & (request == number)
        kinds = ["draft" if is_draft else "verify" for is_draft in drafts[own]]
        assert kinds_of(replayed[row]) * replayed[row].n_steps == kinds
        assert forwards_of(replayed[row], prompts[row]).tolist() == table[own].tolist()


@pytest.mark.parametrize("name", NAMES)
def test_totals_are_the_captured_ones(name: str) -> None:
    """Forwards of requests and of whole batches, tokens per step and forward, accuracy."""
    trace = shipped(name)
    expected = summary(trace)

    replayed = replay_iterations(trace, {})

    assert replayed.replay == "exact"
    assert {key: replayed.document()[key] for key in KEPT} == pytest.approx(
        {key: expected[key] for key in KEPT}, rel=1e-12
    )
    assert [said.partition(": ")[2] for said in replayed.warnings] == list(trace.manifest.warnings)


@pytest.mark.parametrize("name", ["ref-uno-linear-b8-t1", "ref-eagle3-tree-b8-v16-t0"])
def test_an_uncounted_end_token_is_left_out(name: str) -> None:
    """A request that is counted without its end token has the same steps and a token less."""
    trace = shipped(name)
    pace = IterationPace(trace, trace.manifest.block_tokens, repeats=True)
    output, decoded = numbers(trace.requests, "output_tokens"), decoded_tokens(trace)

    for row in range(trace.requests.num_rows):
        whole = pace.steps(Request(0, 5, int(decoded[row]), source=row)).emitted_tokens
        kept = pace.steps(Request(0, 5, int(output[row]), source=row)).emitted_tokens
        assert len(kept) == len(whole)
        assert kept.sum() == output[row] - 1
        assert (whole - kept)[:-1].sum() == 0


@pytest.mark.parametrize(("source", "tokens"), [(-1, 10), (128, 10), (0, 10)])
def test_what_was_not_captured_is_not_repeated(source: int, tokens: int) -> None:
    """A row that is none of the trace's, or another length than the row's, is an error."""
    pace = IterationPace(shipped("ref-uno-linear-b8-t1"), 8, repeats=True)

    with pytest.raises(ValueError, match=r"requests of|tokens, end token"):
        pace.steps(Request(0, 5, tokens, source=source))
