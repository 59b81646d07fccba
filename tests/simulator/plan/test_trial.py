"""What the objectives of a run come to: against numpy on records made by hand, and its summary."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from simulator.deployment import build
from simulator.engine import Simulated
from simulator.measure import window_of
from simulator.metrics import summarise
from simulator.plan.objective import objectives_of
from simulator.plan.trial import Trial, tried, values_of
from simulator.records import RejectedRecord, RequestRecord, RunRecords
from simulator.result import RunResult, run
from tests.strategies import document, open_document

FloatArray = npt.NDArray[np.float64]

LEVELS = (0.1, 25, 50, 90, 95, 99, 99.9)
REQUESTS = 1000
WHOLE = {"measure": {"warm_up": "none", "drain": "include"}}


def records_of(times_s: dict[str, FloatArray], rejected: int) -> RunRecords:
    """A request a second with the given times, and after them as many that were *rejected*."""
    records = RunRecords()
    for i in range(len(times_s["ttft"])):
        ttft_s, tpot_s, queueing_s = (float(times_s[n][i]) for n in ("ttft", "tpot", "queueing"))
        arrival_s = float(i)
        # One token comes first and ten come later.
        end_s = arrival_s + ttft_s + 10 * tpot_s
        times = (arrival_s, arrival_s + queueing_s, arrival_s + ttft_s, end_s)
        records.add_request(RequestRecord(i, 8, 11, *times, 1, 10, 10, 1), np.array([]))
    for i in range(rejected):
        records.rejected.append(RejectedRecord(REQUESTS + i, REQUESTS - 1.0, 8, 11, "too long"))
    return records


def drawn(requests: int) -> dict[str, FloatArray]:
    """Times of requests; one waits before its first token comes."""
    draws = np.random.default_rng(5)
    waits_s = draws.exponential(1.0, requests)
    return {
        "queueing": waits_s,
        "ttft": waits_s + draws.uniform(0.1, 0.2, requests),
        "tpot": draws.lognormal(-4, 0.5, requests),
    }


def values(records: RunRecords, *options: str, **fields: Any) -> dict[str, float | None]:
    """The values of objectives in a run of these records."""
    deployment = build(open_document("ar") | WHOLE | fields, "test")
    scenario = deployment.scenario
    window = window_of(records, scenario.measure, is_closed=False)
    summary = {"metrics": summarise(records, window, slo=scenario.slo)}
    result = RunResult(summary, Simulated(deployment, records, ()), window)
    return values_of(result, objectives_of(options))


@pytest.mark.parametrize("metric", ["ttft", "tpot", "queueing", "latency"])
def test_percentiles_are_numpys(metric: str) -> None:
    """Any level, and the mean, of the times that the records were made of."""
    times_s = drawn(REQUESTS)
    times_s["latency"] = times_s["ttft"] + 10 * times_s["tpot"]
    names = [f"{metric}_p{level}" for level in LEVELS]

    found = values(records_of(times_s, 0), *(f"{name}=1s" for name in names), f"{metric}_mean=1s")

    wanted = dict(zip(names, np.percentile(times_s[metric], LEVELS), strict=True))
    wanted[f"{metric}_mean"] = times_s[metric].mean()
    assert found == pytest.approx(wanted, rel=1e-9)


def test_rejected_requests_take_for_ever() -> None:
    """Half a per cent of them leaves the 99th percentile finite, two per cent do not."""
    few, many = (records_of(drawn(REQUESTS - n), n) for n in (5, 20))
    options = ("ttft_p50=1s", "ttft_p99=1s", "ttft_p99.9=1s", "ttft_mean=1s")

    found = values(few, *options)

    # Of a thousand, the 990th is the least that 99 % do not exceed.
    sorted_s = np.sort(drawn(REQUESTS - 5)["ttft"])
    assert found["ttft_p99"] == pytest.approx(sorted_s[989], rel=1e-9)
    assert found["ttft_p50"] == pytest.approx(sorted_s[499], rel=1e-9)
    assert found["ttft_p99.9"] == np.inf
    assert found["ttft_mean"] == np.inf
    found = values(many, *options)
    assert found["ttft_p99"] == np.inf
    assert found["ttft_p50"] is not None
    assert np.isfinite(found["ttft_p50"])


def test_rejected_requests_are_no_goodput() -> None:
    """Of a thousand, twenty were rejected and the rest keeps every limit."""
    found = values(records_of(drawn(REQUESTS - 20), 20), "goodput>=0.9", slo={"ttft": 1000.0})

    assert found["goodput"] == pytest.approx(0.98)


def test_only_what_is_measured_counts() -> None:
    """Requests before the end of the warm-up are left out, and rejected ones among them."""
    times_s = drawn(REQUESTS)
    records = records_of(times_s, 0)
    records.rejected.append(RejectedRecord(REQUESTS, 3.0, 8, 11, "too long"))

    found = values(
        records, "ttft_p99=1s", "ttft_mean=1s", measure={"warm_up": 100.0, "drain": "include"}
    )

    assert found["ttft_p99"] == pytest.approx(np.percentile(times_s["ttft"][100:], 99))
    assert found["ttft_mean"] == pytest.approx(times_s["ttft"][100:].mean())


def test_a_run_agrees_with_its_summary() -> None:
    """p50, p90, p95, p99 and mean are those that `run` tells, of every time and rate."""
    scenario = open_document("ar") | {"slo": {"ttft": 1.0}}
    scenario["workload"] |= {"requests": 200, "rate_per_s": 100.0}
    times = ("ttft", "tpot", "latency", "queueing", "inter_token", "inter_emission", "step_latency")
    statistics = ("p50", "p90", "p95", "p99", "mean")
    rates = ("output_tokens_per_s", "requests_per_s", "output_tokens_per_s_per_request")
    shares = ("kv_used_share", "busy_share")
    options = [f"{time}_{each}=1s" for time in times for each in statistics]
    options += [f"{each}=1" for each in (*rates, *shares, "goodput")]

    outcome = tried(Trial(scenario, objectives_of(options)))

    metrics = run(build(scenario, "test")).summary["metrics"]
    assert not outcome.refused
    for time in times:
        told = metrics[f"{time}_s"]
        assert {each: outcome.values[f"{time}_{each}"] for each in statistics} == told
    for name in (*rates, *shares):
        assert outcome.values[name] == metrics[name]
    assert outcome.values["goodput"] == metrics["goodput"]["share"]
    assert outcome.state in {"steady", "growing", "too short"}


def test_one_token_has_no_time_per_token() -> None:
    """What a run does not have is no value, of any statistic."""
    scenario = open_document("ar")
    scenario["workload"] |= {"output_tokens": 1}

    outcome = tried(Trial(scenario, objectives_of(["tpot_p99=1s", "inter_token_mean=1s"])))

    assert outcome.values == {"tpot_p99": None, "inter_token_mean": None}


def test_rejections_of_a_trace_count(tmp_path: Path) -> None:
    """Two requests of a hundred are longer than the model's context: its p99 is for ever."""
    path = tmp_path / "requests.csv"
    rows = [f"{i},{10**6 if i in {30, 60} else 64},2" for i in range(100)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n", "utf-8")
    scenario = open_document("ar") | {"workload": {"kind": "trace", "file": str(path)}} | WHOLE

    outcome = tried(Trial(scenario, objectives_of(["ttft_p90=1s", "ttft_p99=1s"])))

    assert outcome.values["ttft_p99"] == np.inf
    assert outcome.values["ttft_p90"] is not None
    assert outcome.values["ttft_p90"] < 1.0


def test_what_a_scenario_is_refused_for_is_an_outcome() -> None:
    """A model that does not fit: no value, no state of a queue, and the reason."""
    scenario = document("ar") | {"hardware": "h100-sxm", "precision": {"weights": "fp32"}}
    outcome = tried(
        Trial(scenario | {"decode": {"policy": "no-such"}}, objectives_of(["ttft_p99=1"]))
    )

    assert "no policy 'no-such'" in outcome.refused
    assert outcome.values == {}
    assert outcome.state == "steady"
