"""The interval of a run, worked out by hand."""

from typing import Any

import pytest

from simulator.fidelity import INTERVAL_BASIS, OPEN_BASIS, interval

# In quadrature: 25 %.
TERMS = {"kernels": 0.15, "engine": 0.2}


def metrics(rate: float, busy: float = 1.0) -> dict[str, Any]:
    """Of a run with steps of 20 ms."""
    return {
        "output_tokens_per_s": rate,
        "busy_share": busy,
        "step_latency_s": {"mean": 0.02},
    }


def test_a_closed_load_takes_as_long_as_its_steps() -> None:
    """Steps that are 25 % off make the rate so much lower or higher."""
    found = interval(metrics(100.0), TERMS)

    assert found["relative"] == pytest.approx(0.25, rel=1e-12)
    assert found["output_tokens_per_s"] == pytest.approx({"low": 80.0, "high": 125.0}, rel=1e-12)
    assert found["step_latency_s"] == pytest.approx({"low": 0.015, "high": 0.025}, rel=1e-12)
    assert (found["basis"], found["terms"]) == (INTERVAL_BASIS, TERMS)


@pytest.mark.parametrize(
    ("filled", "offered", "low", "high"),
    [
        (0.5, 101.0, 100.0, 101.0),  # half a batch: slower steps serve as much
        (0.9, 101.0, 100.0 / 1.125, 101.0),  # they would need 1.125 batches
        (1.0, 300.0, 80.0, 125.0),  # overloaded: the steps set the rate
        (1.0, 99.0, 80.0, 100.0),  # what was served is possible
    ],
)
def test_an_open_load_sets_the_rate(filled: float, offered: float, low: float, high: float) -> None:
    """Never above what is offered; below what is served only so far as batches would be full."""
    found = interval(metrics(100.0), TERMS, offered, filled)

    assert found["output_tokens_per_s"] == pytest.approx({"low": low, "high": high}, rel=1e-12)
    assert found["step_latency_s"] == pytest.approx({"low": 0.015, "high": 0.025}, rel=1e-12)
    assert found["basis"] == f"{INTERVAL_BASIS}; {OPEN_BASIS}"


def test_without_a_step_there_is_no_interval_of_it() -> None:
    """A run whose requests were all rejected has no steps."""
    found = interval(metrics(0.0, 0.0) | {"step_latency_s": None}, TERMS, 5.0)

    assert found["step_latency_s"] is None
    assert found["output_tokens_per_s"] == {"low": 0.0, "high": 0.0}
