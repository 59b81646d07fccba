"""How full batches, caches and replicas are, against Little's law on the requests' own times."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from simulator.result import RunResult, run
from tests.strategies import deployed, open_document


def served(order: str, **changes: Any) -> RunResult:
    """400 requests at a rate at which prompts take much of the time."""
    load = {
        "kind": "poisson",
        "rate_per_s": 40.0,
        "requests": 400,
        "prompt_tokens": 512,
        "output_tokens": 64,
    }
    scenario = open_document("ar") | {"workload": load, "serving": {"prefill_order": order}}
    return run(deployed(scenario, **changes))


def present_s(
    stays: Sequence[tuple[float, float]], begin_s: float = 0.0, end_s: float = math.inf
) -> float:
    """Seconds that all *stays* together have between two times."""
    return math.fsum(max(0.0, min(end, end_s) - max(begin, begin_s)) for begin, end in stays)


def busy_s(records: Sequence[Any], replicas: set[int]) -> float:
    """Seconds of the steps of *replicas*."""
    return math.fsum(step.seconds for step in records if step.replica in replicas)


@pytest.mark.parametrize("order", ["first", "interleaved", "mixed"])
def test_the_mean_batch_obeys_littles_law(order: str) -> None:
    """Whatever steps do, the mean batch is admissions to finishes, over the time of the steps."""
    result = served(order, measure={"warm_up": "none", "drain": "include"})

    records = result.simulated.records
    stays = [(r.admitted_s, r.finished_s) for r in records.requests]
    wanted = present_s(stays) / busy_s(list(records.steps), {0})
    assert result.summary["metrics"]["batch_rows"] == pytest.approx(wanted, rel=1e-3)


def test_the_mean_batch_of_a_window_obeys_littles_law() -> None:
    """Between warm-up and last arrival, it is throughput times the time in the batch."""
    result = served("first", measure={"warm_up": 2.0})

    records, metrics = result.simulated.records, result.summary["metrics"]
    end_s = max(r.arrival_s for r in records.requests)
    begin_s = min(r.arrival_s for r in records.requests) + 2.0
    stays = [(r.admitted_s, r.finished_s) for r in records.requests]
    steps = [(s.start_s, s.start_s + s.seconds) for s in records.steps]
    wanted = present_s(stays, begin_s, end_s) / present_s(steps, begin_s, end_s)
    assert metrics["batch_rows"] == pytest.approx(wanted, rel=0.01)
    inside = [r for r in records.requests if begin_s <= r.arrival_s <= end_s]
    in_batch_s = float(np.mean([r.finished_s - r.admitted_s for r in inside]))
    by_rate = metrics["requests_per_s"] * in_batch_s / metrics["busy_share"]
    assert metrics["batch_rows"] == pytest.approx(by_rate, rel=0.1)


def _split(fillers: int, decoders: int) -> RunResult:
    link = {"link_bytes_per_s": 100e9, "link_latency_s": 1e-4}
    return served(
        "first",
        disaggregation={"prefill_replicas": fillers} | link,
        parallel={"dp": decoders},
        measure={"warm_up": "none", "drain": "include"},
    )


def test_replicas_that_decode_and_those_that_fill_are_told_apart() -> None:
    """The headline is of those that decode; of the others, admission to first token is the stay."""
    result = _split(fillers=1, decoders=2)

    records, metrics = result.simulated.records, result.summary["metrics"]
    steps = list(records.steps)
    assert all(r.prefill_emitted_tokens == 1 for r in records.requests)
    filled = [(r.admitted_s, r.first_token_s) for r in records.requests]
    others = metrics["prefill_replicas"]
    assert metrics["role_by_replica"] == ["decode", "decode", "prefill"]
    assert others["batch_rows"] == pytest.approx(present_s(filled) / busy_s(steps, {2}), rel=1e-3)
    simulated_s = metrics["simulated_s"]
    assert others["busy_share"] == pytest.approx(busy_s(steps, {2}) / simulated_s, rel=1e-3)
    decoding = busy_s(steps, {0, 1}) / 2 / simulated_s
    assert metrics["busy_share"] == pytest.approx(decoding, rel=1e-3)
    rows = math.fsum(s.seconds * s.rows for s in steps if s.replica < 2) / busy_s(steps, {0, 1})
    # Nobody there waits for a prompt, so who is in the batch is in every step.
    assert metrics["batch_rows"] == pytest.approx(rows, rel=1e-3)
    cache = math.fsum(s.seconds * s.kv_used_bytes for s in steps if s.replica < 2)
    assert metrics["kv_used_bytes"] == pytest.approx(cache / busy_s(steps, {0, 1}), rel=1e-3)


def test_a_run_without_disaggregation_has_no_roles() -> None:
    """Its summary has the keys that it always had."""
    metrics = served("first").summary["metrics"]

    assert not {"role_by_replica", "prefill_replicas"} & metrics.keys()
