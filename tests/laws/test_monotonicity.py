"""What can only get slower, or only faster, when one thing changes."""

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.engine import simulate
from simulator.request import Request
from tests.strategies import (
    POLICIES,
    POLICIES_ON_ENGINES,
    decodes,
    deployed,
    document,
    fitting_decode,
    fitting_trace,
    play,
    scaled,
)

# A sum and a p-norm may lose the last bits of a time.
ROUNDING = 1 + 1e-12
few = settings(max_examples=6)


@pytest.mark.parametrize("policy", POLICIES)
@few
@given(data=st.data())
def test_more_output_never_finishes_sooner(policy: str, data: st.DataObject) -> None:
    """A lone request with more tokens to emit finishes no earlier, at any parameters."""
    deployment = deployed(document(policy, data.draw(decodes(policy))))
    prompt, output = data.draw(st.integers(1, 60)), data.draw(st.integers(1, 60))
    longer = output + data.draw(st.integers(1, 30))

    shorter_run, longer_run = (
        play(deployment, [Request(0, prompt, n)]).replica for n in (output, longer)
    )

    shorter_s = shorter_run.records.requests[0].finished_s
    assert shorter_s <= longer_run.records.requests[0].finished_s * ROUNDING


@pytest.mark.parametrize("policy", [p for p in POLICIES if fitting_trace(p)])
def test_more_output_never_finishes_sooner_with_a_trace(policy: str) -> None:
    """The same with drawn acceptance: a longer request's draws begin as the shorter one's do."""
    deployment = deployed(document(policy, fitting_decode(policy, trace=fitting_trace(policy))))
    finished = [
        play(deployment, [Request(0, 30, n)]).replica.records.requests[0].finished_s
        for n in range(1, 60, 4)
    ]

    assert finished == sorted(finished)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_longer_prompt_never_has_its_first_token_sooner(policy: str) -> None:
    """A lone request with whole further blocks of prompt waits no less for its first token."""
    deployment = deployed(document(policy))
    first = [
        play(deployment, [Request(0, n, 8)]).replica.records.requests[0].first_token_s
        for n in range(32, 512, 96)
    ]

    assert first == sorted(first)


@pytest.mark.parametrize(("policy", "engine"), POLICIES_ON_ENGINES)
def test_a_lone_request_is_never_slower_with_faster_memory(policy: str, engine: str) -> None:
    """More memory bandwidth in every curve lengthens no step and no latency."""
    deployment = deployed(document(policy, concurrency=1), engine=engine)

    def quicker(name: str, number: float) -> float:
        rates = {"memory_bytes_per_s", "row_bytes_per_s"}
        return number * 1.3 if name in rates else number

    quick = dataclasses.replace(deployment, hardware=scaled(deployment.hardware, quicker))
    before, after = simulate(deployment).records, simulate(quick).records

    if engine == "ideal":
        assert after.requests[0].finished_s < before.requests[0].finished_s
    # Elsewhere the host may be all that is waited for.
    assert after.requests[0].finished_s <= before.requests[0].finished_s * ROUNDING
    for old, new in zip(before.steps, after.steps, strict=True):
        assert new.seconds <= old.seconds * ROUNDING


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("prompt_tokens", [16, 4000])
def test_a_step_never_gets_cheaper_with_more_requests(policy: str, prompt_tokens: int) -> None:
    """On the ideal engine each decode step takes at least as long in a larger batch."""
    shape: dict[str, Any] = {"prompt_tokens": prompt_tokens, "output_tokens": 9}
    before = np.zeros(1)
    for concurrency in (1, 2, 3, 5, 8, 13, 21):
        records = simulate(deployed(document(policy, concurrency=concurrency, **shape))).records
        seconds = np.array([s.seconds for s in records.steps if not s.prefill])
        assert (before <= seconds * ROUNDING).all()
        before = seconds
