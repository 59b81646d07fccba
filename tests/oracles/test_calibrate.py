"""Calibration recovers the overheads that made its points."""

import dataclasses
from typing import Any

import pytest

from simulator import library
from simulator.calibrate import METRIC_TIMES, Fit, Point, calibrate
from simulator.deployment import build
from simulator.documents import DocumentError
from simulator.engine import simulate
from simulator.engine_profile import EngineProfile, Overhead
from simulator.metrics import summarise

TRUE = Overhead(step_s=8.13e-4, pass_s=4.07e-5, row_s=1.29e-5, logit_s=2.48e-11)


def scenario(policy: str, concurrency: int, **decode: Any) -> dict[str, Any]:
    """A small scenario on the ideal engine."""
    return {
        "model": "qwen3-8b",
        "hardware": "h200-sxm",
        "engine": "ideal",
        "decode": {"policy": policy, **decode},
        "workload": {
            "kind": "closed",
            "concurrency": concurrency,
            "prompt_tokens": 64,
            "output_tokens": 6,
        },
    }


SCENARIOS = [
    scenario("ar", 1),
    scenario("ar", 24),
    scenario("uno-linear", 1, block=4, tokens_per_step=3.0),
    scenario("uno-linear", 16, block=16, tokens_per_step=5.0),
    scenario("eagle3-linear", 4, block=6, tokens_per_step=2.0),
]
IDEAL: EngineProfile = library.ENGINES.get("ideal")


def value_of(metrics: dict[str, Any], metric: str) -> float:
    """A rate, or the mean of a distribution."""
    value = metrics[metric]
    return float(value["mean"] if isinstance(value, dict) else value)


def points(overhead: Overhead, metric: str, scenarios: list[dict[str, Any]]) -> list[Point]:
    """What an engine with *overhead* would be measured at."""
    engine = dataclasses.replace(IDEAL, overhead=overhead)
    made = []
    for number, document in enumerate(scenarios):
        deployment = dataclasses.replace(build(document, "test"), engine=engine)
        metrics = summarise(simulate(deployment).records)
        made.append(Point(f"point {number}", document, metric, value_of(metrics, metric)))
    return made


def fitted(made: list[Point], *names: str) -> Fit:
    """The calibration of the ideal engine to the points."""
    return calibrate(made, IDEAL, names, source="this test")


@pytest.mark.parametrize("metric", sorted(METRIC_TIMES))
def test_known_overheads_are_recovered(metric: str) -> None:
    """Points made with four overheads give them back to the digits kept, with no residual."""
    made = points(TRUE, metric, SCENARIOS)

    fit = fitted(made, "step_s", "pass_s", "row_s", "logit_s")

    for name in ("step_s", "pass_s", "row_s", "logit_s"):
        found, true = getattr(fit.engine.overhead, name), getattr(TRUE, name)
        assert found == pytest.approx(true, rel=1e-3), name
    calibration = fit.engine.calibration
    assert calibration is not None
    assert calibration.worst_residual < 1e-3
    assert calibration.points == len(SCENARIOS)
    assert fit.predicted == pytest.approx([point.measured for point in made], rel=1e-3)


def test_as_many_points_as_parameters_are_met_exactly() -> None:
    """A saturated fit leaves nothing over, whatever was measured."""
    made = points(TRUE, "step_latency_s", SCENARIOS[:2])
    slower = [dataclasses.replace(p, measured=1.37 * p.measured) for p in made]

    fit = fitted(slower, "step_s", "row_s")

    assert fit.predicted == pytest.approx([p.measured for p in slower], rel=1e-3)
    assert fit.engine.calibration is not None
    assert fit.engine.calibration.worst_residual < 1e-3


def test_a_parameter_that_is_not_there_comes_out_zero() -> None:
    """An overhead that played no part is fitted as zero beside the one that did."""
    made = points(Overhead(step_s=1e-3), "step_latency_s", SCENARIOS)

    overhead = fitted(made, "step_s", "emission_s").engine.overhead

    assert overhead.step_s == pytest.approx(1e-3, rel=1e-3)
    assert overhead.emission_s < 1e-8


def test_no_overhead_comes_out_negative() -> None:
    """Points faster than the kernels allow are met by nothing, not by negative time."""
    made = points(Overhead(), "step_latency_s", SCENARIOS[:3])
    faster = [dataclasses.replace(p, measured=0.8 * p.measured) for p in made]

    fit = fitted(faster, "step_s", "row_s")

    assert fit.engine.overhead == Overhead()
    assert fit.engine.calibration is not None
    assert fit.engine.calibration.median_residual == pytest.approx(0.2, rel=1e-3)


def test_a_floor_under_passes_is_recovered() -> None:
    """Host time that hides most kernels is found, though times are not linear in it."""
    made = points(Overhead(host_pass_s=0.05, step_s=2e-3), "step_latency_s", SCENARIOS)

    overhead = fitted(made, "host_pass_s", "step_s").engine.overhead

    assert overhead.host_pass_s == pytest.approx(0.05, rel=1e-3)
    assert overhead.step_s == pytest.approx(2e-3, rel=2e-2)


def test_too_few_points_are_refused() -> None:
    """Two points cannot fix three parameters."""
    made = points(TRUE, "tpot_s", SCENARIOS[:2])

    with pytest.raises(DocumentError, match="2 points cannot fix 3 parameters"):
        fitted(made, "step_s", "pass_s", "row_s")
