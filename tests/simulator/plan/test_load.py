"""The load of a plan: the asked rate is the one that comes, and idle requests meet nobody."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.plan.load import Load, full_replica, load_of
from simulator.result import run
from simulator.scenario import with_settings
from tests.strategies import document, files_read_once, open_document


def written(folder: Path, arrivals_s: list[float]) -> str:
    """A request trace of so many arrivals; lengths differ."""
    path = folder / "requests.csv"
    rows = [f"{time!r},{20 + i % 7},{2 + i % 5}" for i, time in enumerate(arrivals_s)]
    path.write_text("\n".join(["arrival_s,prompt_tokens,output_tokens", *rows]) + "\n", "utf-8")
    return str(path)


def scenario_of(workload: dict[str, Any]) -> dict[str, Any]:
    """A scenario under that load."""
    return open_document("ar") | {"workload": workload}


def load_of_workload(workload: dict[str, Any], requests: int | None = None) -> Load:
    """The load of a plan for it."""
    scenario = scenario_of(workload)
    return load_of(scenario, build(scenario, "test"), requests)


def came(workload: dict[str, Any], settings: dict[str, Any]) -> Any:
    """When requests arrived in a run with those settings."""
    result = run(build(with_settings(scenario_of(workload), settings), "test"))
    return np.sort(result.simulated.records.requests.column("arrival_s"))


def bursts() -> list[float]:
    """Arrivals of which none is spaced evenly, from 100 s on."""
    gaps = np.random.default_rng(2).exponential(0.7, 299)
    return [100.0, *(100.0 + np.cumsum(gaps)).tolist()]


@pytest.mark.parametrize("scale", [None, 0.25])
@pytest.mark.parametrize("rate_per_s", [0.3, 5.0, 80.0])
def test_a_trace_comes_at_the_asked_rate(
    tmp_path: Path, rate_per_s: float, scale: float | None
) -> None:
    """Gaps over span of the run's own arrivals, whatever rate_scale the scenario has."""
    workload: dict[str, Any] = {"kind": "trace", "file": written(tmp_path, bursts())}
    if scale is not None:
        workload["rate_scale"] = scale
    load = load_of_workload(workload)

    arrivals_s = came(workload, load.at(rate_per_s))

    assert load.is_trace
    own_per_s = 299 / (bursts()[-1] - bursts()[0]) * (scale or 1.0)
    assert load.own_rate_per_s == pytest.approx(own_per_s, rel=1e-9)
    assert len(arrivals_s) == 300
    assert 299 / (arrivals_s[-1] - arrivals_s[0]) == pytest.approx(rate_per_s, rel=1e-9)


def test_a_trace_at_its_own_rate_is_left_as_it_is(tmp_path: Path) -> None:
    """No scale is set that would be one but for rounding; every request counts."""
    workload = {"kind": "trace", "file": written(tmp_path, bursts())}
    load = load_of_workload(workload)

    settings = load.at((load.own_rate_per_s or 0.0) * (1 + 1e-12))

    assert settings == {
        "workload": workload,
        "measure": {"warm_up": "none", "drain": "include"},
    }


def test_a_trace_is_measured_as_the_scenario_says(tmp_path: Path) -> None:
    """Where it says how."""
    workload = {"kind": "trace", "file": written(tmp_path, bursts())}
    scenario = scenario_of(workload) | {"measure": {"warm_up": "auto"}}

    load = load_of(scenario, build(scenario, "test"), None)

    assert load.at(1.0).keys() == {"workload"}


def test_some_requests_of_a_trace(tmp_path: Path) -> None:
    """The first so many, whose own rate it is then."""
    workload = {"kind": "trace", "file": written(tmp_path, bursts())}
    load = load_of_workload(workload, 50)

    assert load.own_rate_per_s == pytest.approx(49 / (bursts()[49] - 100.0), rel=1e-9)
    assert len(came(workload, load.at(20.0, load.requests_at(20.0, 1.0)))) == 50


@pytest.mark.parametrize("kind", ["poisson", "constant", "gamma"])
def test_generated_loads_get_the_rate_and_as_many_requests(kind: str) -> None:
    """What else the scenario says of them stays."""
    workload = {"kind": kind, "rate_per_s": 3.0, "requests": 40}
    workload |= {"prompt_tokens": 20, "output_tokens": 2}
    workload |= {"cv": 2.0} if kind == "gamma" else {}
    load = load_of_workload(workload)

    assert load.own_rate_per_s == 3.0
    assert load.at(7.0, 90) == {"workload": workload | {"rate_per_s": 7.0, "requests": 90}}
    # Six stays of two seconds at seven a second; never fewer than the scenario has.
    assert load.requests_at(7.0, 2.0) == 84
    assert load.requests_at(7.0, 0.001) == 40
    assert load_of_workload(workload, 25).at(7.0) == {
        "workload": workload | {"rate_per_s": 7.0, "requests": 25}
    }
    assert load_of_workload(workload, 25).requests_at(7.0, 100.0) is None


def test_so_many_requests_instead_of_a_duration() -> None:
    """A duration says how many there are, unless the plan is told."""
    workload = {"kind": "poisson", "rate_per_s": 3.0, "duration_s": 9.0}
    workload |= {"prompt_tokens": 20, "output_tokens": 2}

    assert load_of_workload(workload).requests_at(3.0, 100.0) is None
    assert load_of_workload(workload).at(5.0) == {"workload": workload | {"rate_per_s": 5.0}}
    few = load_of_workload(workload, 30).at(5.0)["workload"]
    assert few.get("duration_s") is None
    assert few["requests"] == 30


def test_a_closed_load_becomes_an_open_one() -> None:
    """Poisson arrivals of the same lengths, without a rate of its own, and it is said."""
    scenario = document("ar", concurrency=5, requests=70, prompt_tokens=33, output_tokens=4)

    load = load_of(scenario, build(scenario, "test"), 300)

    assert load.own_rate_per_s is None
    assert "closed load was made an open one" in load.note
    arrivals_s = came(scenario["workload"], load.at(50.0))
    assert len(arrivals_s) == 300
    assert 299 / (arrivals_s[-1] - arrivals_s[0]) == pytest.approx(50.0, rel=0.2)
    section = load.at(50.0)["workload"]
    assert (section["prompt_tokens"], section["output_tokens"]) == (33, 4)
    assert load_of(scenario, build(scenario, "test"), None).requests_at(50.0, 0.01) == 2000


def test_captured_requests_have_no_rate() -> None:
    """They come as their users are free; a plan is refused."""
    scenario = document("ar") | {
        "decode": {"policy": "uno-linear", "trace": "uno-qwen3-8b-t1"},
    }
    deployment = build(scenario, "test")
    closed = deployment.scenario.workload

    class Captured:
        """Of the workload, what a plan looks at."""

        kind, is_closed, notes = "captured", closed.is_closed, ()

    object.__setattr__(deployment.scenario, "workload", Captured())
    with pytest.raises(DocumentError, match="captured requests have no rate"):
        load_of(scenario, deployment, None)


@pytest.mark.parametrize("requests", [None, 1])
def test_one_instant_is_no_rate(tmp_path: Path, requests: int | None) -> None:
    """Requests that arrive all at once, or a single one, cannot be sped up."""
    times_s = [3.0] * 40 if requests is None else bursts()
    workload = {"kind": "trace", "file": written(tmp_path, times_s)}

    with pytest.raises(DocumentError, match="arrive at one instant") as caught:
        load_of_workload(workload, requests)
    assert caught.value.mistakes[0].where == "workload.file"


@pytest.mark.parametrize("kind", ["poisson", "gamma", "trace"])
def test_idle_requests_never_meet(tmp_path: Path, kind: str) -> None:
    """A batch has one request at most; all of a trace or some."""
    workload: dict[str, Any] = {"kind": kind, "rate_per_s": 50.0, "requests": 40}
    workload |= {"prompt_tokens": 20, "output_tokens": 3}
    if kind == "gamma":
        workload |= {"cv": 3.0}
    if kind == "trace":
        workload = {"kind": "trace", "file": written(tmp_path, bursts())}
    load = load_of_workload(workload)
    scenario = with_settings(scenario_of(workload), load.idle())

    result = run(build(scenario, "test"))

    steps = result.simulated.records.steps
    assert steps.column("batch_rows").max() == 1
    assert result.summary["metrics"]["queueing_s"]["p99"] == 0.0
    assert len(result.simulated.records.requests) == 200


def test_a_full_replica_is_full() -> None:
    """One replica with as many users as its batch may hold, whatever the scenario has."""
    scenario = open_document("ar") | {"batching": {"max_batch": 5}, "parallel": {"dp": 3}}

    with files_read_once():
        full = with_settings(scenario, full_replica(build(scenario, "test")))
        result = run(build(full, "test"))

    assert result.simulated.records.steps.column("batch_rows").max() == 5
    assert len(result.simulated.replicas) == 1
