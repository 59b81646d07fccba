"""Different descriptions of the same run, which must give the same answer."""

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from simulator.deployment import Deployment
from simulator.engine import Simulated, simulate
from simulator.request import Request
from simulator.result import run
from simulator.schedule import MOVED
from simulator.stepping import in_bulk
from tests.laws.checks import the_same_to_rounding
from tests.strategies import (
    BATCHINGS,
    POLICIES,
    POLICIES_ON_ENGINES,
    closed_requests,
    deployed,
    document,
    fitting_decode,
    fitting_trace,
    play,
    scaled,
)

RUN_DOCUMENTS = """
import json, sys
from simulator.deployment import build
from simulator.result import run
for document in json.load(sys.stdin):
    print(run(build(document, "test")).to_json())
"""


def varied(policy: str, **workload: Any) -> dict[str, Any]:
    """A scenario in which requests of a speculative policy need different numbers of steps."""
    trace = fitting_trace(policy)
    decode = fitting_decode(policy, trace=trace) if trace else fitting_decode(policy)
    return document(policy, decode, **{"concurrency": 3, "requests": 5} | workload)


def decode_seconds(run: Simulated) -> list[float]:
    """Seconds of each decode step."""
    return [step.seconds for step in run.records.steps if not step.prefill]


@pytest.mark.parametrize("policy", POLICIES)
def test_the_same_scenario_gives_the_same_bytes(policy: str) -> None:
    """Nothing but the scenario decides the result."""
    first, second = (run(deployed(varied(policy))).to_json() for _ in range(2))

    assert first == second


def test_the_hash_seed_changes_no_byte() -> None:
    """Another process with another PYTHONHASHSEED gives the same bytes, for every policy."""
    documents = [varied(policy) for policy in POLICIES]
    here = "".join(run(deployed(d)).to_json() + "\n" for d in documents)

    other = subprocess.run(
        [sys.executable, "-c", RUN_DOCUMENTS],
        input=json.dumps(documents),
        env=os.environ | {"PYTHONHASHSEED": "4242"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert other.stdout == here


@pytest.mark.parametrize("policy", POLICIES)
def test_a_scenario_survives_being_written_and_read(policy: str) -> None:
    """The scenario that a result holds, defaults written out, gives that result again."""
    result = run(deployed(varied(policy)))

    again = run(deployed(json.loads(result.to_json())["scenario"]))

    assert again.to_json() == result.to_json()


@pytest.mark.parametrize("stretch", [1, 7])
@pytest.mark.parametrize("policy", POLICIES)
def test_records_do_not_depend_on_how_many_steps_are_priced_together(
    policy: str, stretch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pricing steps one by one or by the hundred is a matter of speed only."""
    deployment = deployed(varied(policy), batching={"max_batch": 2})
    expected = simulate(deployment).records

    monkeypatch.setattr(in_bulk, "LEAST_STEPS", 1)
    monkeypatch.setattr(in_bulk, "MOST_STEPS", stretch)

    the_same_to_rounding(simulate(deployment).records, expected)


@pytest.mark.parametrize(("policy", "engine"), POLICIES_ON_ENGINES)
def test_equal_requests_make_static_and_continuous_batching_equal(policy: str, engine: str) -> None:
    """When all start and finish together, it does not matter when one might leave."""
    scenario = document(policy, concurrency=3, requests=6)

    static, continuous = (
        simulate(deployed(scenario, engine=engine, batching={"mode": mode}))
        for mode in ("static", "continuous")
    )

    assert static.records.steps == continuous.records.steps
    assert static.records.requests == continuous.records.requests


def at_twice_the_speed(name: str, number: float) -> float:
    """Rates doubled and fixed times halved, by the unit at the end of the name."""
    if name.endswith("_per_s"):
        return number * 2
    return number / 2 if name.endswith("_s") or name == "seconds" else number


def faster(deployment: Deployment) -> Deployment:
    """The deployment on hardware and software that are twice as fast at everything."""
    return dataclasses.replace(
        deployment,
        hardware=scaled(deployment.hardware, at_twice_the_speed),
        engine=scaled(deployment.engine, at_twice_the_speed),
    )


@pytest.mark.parametrize(("policy", "engine"), POLICIES_ON_ENGINES)
def test_twice_the_speed_halves_every_time(policy: str, engine: str) -> None:
    """Doubled rates and halved fixed costs halve every time of the run, to the last bit."""
    deployment = deployed(varied(policy), engine=engine)
    slow, fast = simulate(deployment).records, simulate(faster(deployment)).records

    assert [s.seconds / 2 for s in slow.steps] == [s.seconds for s in fast.steps]
    for slower, quicker in zip(slow.requests, fast.requests, strict=True):
        assert slower.admitted_s / 2 == quicker.admitted_s
        assert slower.first_token_s / 2 == quicker.first_token_s
        assert slower.finished_s / 2 == quicker.finished_s


def test_twice_the_speed_halves_tensor_parallel_times() -> None:
    """The same with all-reduces, whose tables are interpolated in logarithms: to rounding."""
    deployment = deployed(varied("ar"), parallel={"tp": 2})
    slow, fast = simulate(deployment), simulate(faster(deployment))

    assert decode_seconds(fast) == pytest.approx(np.array(decode_seconds(slow)) / 2, rel=1e-12)


@pytest.mark.parametrize("mode", BATCHINGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_users_beyond_the_batch_only_queue(policy: str, mode: str) -> None:
    """At equal requests all at once, a bigger crowd makes the same steps and waits longer."""
    batching = {"mode": mode, "max_batch": 3}
    sized = document(policy, concurrency=3, requests=9)
    crowded = document(policy, concurrency=9, requests=9)

    few, many = (simulate(deployed(scenario, batching=batching)) for scenario in (sized, crowded))

    assert [s.seconds for s in many.records.steps] == [s.seconds for s in few.records.steps]
    service = [r.finished_s - r.admitted_s for r in few.records.requests]
    assert [r.finished_s - r.admitted_s for r in many.records.requests] == service
    assert sum(r.admitted_s - r.arrival_s for r in few.records.requests) == 0
    assert sum(r.admitted_s - r.arrival_s for r in many.records.requests) > 0


@pytest.mark.parametrize("policy", [p for p in POLICIES if fitting_trace(p)])
def test_users_beyond_the_batch_only_queue_when_lengths_differ(policy: str) -> None:
    """A place that falls free is taken at once, by a waiting user or by the one who left it."""
    batching = {"max_batch": 3}
    few, many = (
        simulate(deployed(varied(policy, concurrency=c, requests=9), batching=batching))
        for c in (3, 9)
    )

    assert [s.rows for s in many.records.steps] == [s.rows for s in few.records.steps]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_closed_run_is_its_requests_submitted_together(policy: str) -> None:
    """As many users as requests are the same as all requests arriving at time zero."""
    deployment = deployed(varied(policy, concurrency=4, requests=4))
    expected = simulate(deployment).records

    records = play(deployment, closed_requests(deployment)).replica.records

    assert records.requests == expected.requests
    assert records.steps == expected.steps


def test_a_window_of_one_token_is_autoregression() -> None:
    """A window of one block of one token, one forward each, takes the decode steps of AR."""
    decode = {"policy": "gwd", "block": 1, "window": 1, "tokens_per_forward": 1.0}
    model = {"model": "qwen3-8b"}
    window = simulate(deployed(document("gwd", decode, output_tokens=20), **model))
    # The prefill of AR samples one token more.
    autoregression = simulate(deployed(document("ar", output_tokens=21), **model))

    assert decode_seconds(window) == pytest.approx(decode_seconds(autoregression), rel=1e-9)


def test_denoising_and_storing_single_tokens_takes_twice_the_steps_of_autoregression() -> None:
    """Blocks of one token with one denoise and one store forward: each AR step happens twice."""
    decode = {"policy": "single-block", "block": 1, "tokens_per_forward": 0.5}
    blocks = simulate(
        deployed(document("single-block", decode, output_tokens=20), model="qwen3-8b")
    )
    autoregression = simulate(deployed(document("ar", output_tokens=21)))

    twice = [seconds for step in decode_seconds(autoregression) for seconds in (step, step)]
    # The last block's store has no reader.
    assert decode_seconds(blocks) == pytest.approx(twice[:-1], rel=1e-9)


def test_a_window_and_a_buffer_of_two_blocks_cost_the_same() -> None:
    """Gated wavefront and block buffer run the same rows at the same pace."""
    common = {"block": 8, "tokens_per_forward": 3.0}
    window = {"policy": "gwd", "window": 2, **common}
    buffer = {"policy": "block-buffer", "buffer": 2, **common}

    first = simulate(deployed(document("gwd", window)))
    second = simulate(deployed(document("block-buffer", buffer)))

    assert first.records.steps == second.records.steps


@pytest.mark.parametrize(
    ("kind", "tree"),
    [("uno", {"top_k": 1, "tree_size": 3}), ("eagle3", {"top_k": 1, "tree_size": 4})],
)
def test_a_tree_without_branches_is_a_chain(kind: str, tree: dict[str, int]) -> None:
    """With one candidate a level a tree has the loads of a chain, moving its path apart."""
    common = {"block": 4, "tokens_per_step": 2.5}
    chain = {"policy": f"{kind}-linear", **common}
    branchless = {"policy": f"{kind}-tree", **common, **tree}

    first, second = (
        deployed(document(str(decode["policy"]), decode)).schedule(Request(0, 40, 30))
        for decode in (chain, branchless)
    )

    assert [p.shape for p in first.passes] == [p.shape for p in second.passes]
    assert np.array_equal(first.emitted_tokens, second.emitted_tokens)
    assert np.array_equal(first.loads[:, :MOVED], second.loads[:, :MOVED])
