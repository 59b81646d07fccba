"""What a result says of an open load: whether it was kept up with, and what was left out."""

import json
from typing import Any

import pytest

from reports.text import print_run
from simulator.measure import WHOLE
from simulator.result import RunResult, run
from tests.strategies import deployed, document


def result_of(rate_share: float, **changes: Any) -> RunResult:
    """600 requests at a share of what one replica can serve, one at a time."""
    alone = run(deployed(document("ar", concurrency=1), batching={"max_batch": 1}))
    rate = float(alone.summary["metrics"]["requests_per_s"])
    load = {
        "kind": "poisson",
        "rate_per_s": rate_share * rate,
        "requests": 600,
        "prompt_tokens": 40,
        "output_tokens": 24,
    }
    scenario = document("ar") | {"workload": load, "batching": {"max_batch": 1}}
    return run(deployed(scenario, **changes))


def test_a_load_that_is_kept_up_with() -> None:
    """At a third of the capacity it is steady, and the interval lies about what is offered."""
    summary = result_of(0.33).summary
    steady, bounds = summary["steady"], summary["interval"]["output_tokens_per_s"]
    metrics = summary["metrics"]

    assert steady["state"] == "steady"
    assert steady["served_per_s"] == pytest.approx(steady["offered_per_s"], rel=0.02)
    assert metrics["busy_share"] == pytest.approx(0.33, rel=0.15)
    # Idle two thirds of the time: no error of the steps makes it serve less.
    assert bounds["low"] == metrics["output_tokens_per_s"]
    offered = 24 * steady["offered_per_s"]
    assert bounds["high"] == max(offered, metrics["output_tokens_per_s"])
    assert "MSER-5" in metrics["window"]
    assert not any("overloaded" in warning for warning in summary["warnings"])


def test_an_overload_is_a_warning() -> None:
    """Twice the capacity: the first warning says what was offered and served."""
    summary = result_of(2.0).summary

    assert summary["steady"]["state"] == "growing"
    assert summary["warnings"][0] == summary["steady"]["sentence"]
    assert summary["warnings"][0].startswith("overloaded: offered")
    assert summary["metrics"]["busy_share"] == pytest.approx(1.0, rel=5e-3)


def test_requests_are_conserved() -> None:
    """What arrives is finished or rejected, and what is measured is some of what is finished."""
    metrics = result_of(0.8, measure={"warm_up": "none"}, slo={"latency": "1h"}).summary["metrics"]

    assert metrics["requests_arrived"] == 600
    assert metrics["requests_finished"] + metrics["requests_rejected"] == 600
    assert metrics["requests_measured"] == 600
    assert metrics["goodput"]["share"] == 1.0


def test_a_closed_load_is_measured_whole() -> None:
    """Whatever `measure` asks for, which is told; there is no offered rate."""
    closed = deployed(document("ar"), measure={"warm_up": 0.01})
    summary = run(closed).summary

    assert summary["steady"] is None
    assert summary["metrics"]["window"] == WHOLE
    assert any(warning.startswith("measure is of open loads") for warning in summary["warnings"])


def test_the_table_of_steps_changes_no_number() -> None:
    """Without it the summary is the same, byte for byte."""
    deployment = deployed(document("ar"))

    assert run(deployment).to_json() == run(deployment, keep_steps=False).to_json()


def test_the_scenario_in_a_result_is_a_scenario() -> None:
    """What is written out reads back to the same run."""
    first = result_of(0.5, measure={"warm_up": "20ms"}, slo={"ttft": "1s", "tpot": 0.5})
    again = run(deployed(json.loads(first.to_json())["scenario"]))

    assert again.to_json() == first.to_json()


def test_what_is_printed_of_an_overload(capsys: pytest.CaptureFixture[str]) -> None:
    """The verdict stands above the tables; offered rate and goodput are in them."""
    result = result_of(2.0, slo={"ttft": "0.001ms"})
    print_run(result.summary)

    lines = capsys.readouterr().out.splitlines()
    assert lines[2].startswith("poisson arrivals, ")
    assert lines[3] == result.summary["steady"]["sentence"]
    for words in ("  offered", "  within ttft 1 us", "replicas busy", "waiting to be admitted"):
        assert any(words in line for line in lines), words
    assert any("0 (0.0 %)" in line for line in lines)


def test_limits_are_printed_with_their_units(capsys: pytest.CaptureFixture[str]) -> None:
    """A bare 500 is 500 s, which the table says and a warning too; 200ms is what it says."""
    result = result_of(0.5, slo={"ttft": 500, "tpot": "200ms"})
    print_run(result.summary)

    out = capsys.readouterr().out
    assert "  within ttft 8.33 min, tpot 200 ms" in out
    assert any("slo.ttft is 500 s" in warning for warning in result.summary["warnings"])


def test_replicas_that_fill_prompts_are_printed_apart(capsys: pytest.CaptureFixture[str]) -> None:
    """Beside those that decode, whose figures stand above; without them no such line is there."""
    link = {"link_bytes_per_s": 100e9, "link_latency_s": 1e-4}
    split = result_of(0.5, disaggregation={"prefill_replicas": 1} | link)
    print_run(split.summary)
    told = capsys.readouterr().out
    print_run(result_of(0.5).summary)

    assert "prefill replicas busy" not in capsys.readouterr().out
    used = split.summary["metrics"]
    for words, share in (
        ("replicas that decode busy", used["busy_share"]),
        ("prefill replicas busy", used["prefill_replicas"]["busy_share"]),
    ):
        line = next(line for line in told.splitlines() if words in line)
        assert line.split()[-2] == f"{100 * share:.1f}"


def test_steps_that_prompts_share_have_a_name_of_their_own() -> None:
    """Their part of the time is what steps with more tokens than rows take."""
    result = result_of(0.5, serving={"prefill_order": "mixed"}, batching={"max_batch": 4})

    shares = result.summary["time_shares"]["by_operation"]
    told = sum(share for name, share in shares.items() if name.startswith("decode with prompts: "))
    steps = [step for step in result.simulated.records.steps if not step.prefill]
    mixed_s = sum(step.seconds for step in steps if step.query_tokens > step.rows)
    whole_s = sum(step.seconds for step in result.simulated.records.steps)
    assert 0 < mixed_s < whole_s
    assert told == pytest.approx(mixed_s / whole_s, rel=1e-6)
