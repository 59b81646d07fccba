"""Which numbers of a run can be compared, on metrics that are made up by hand and on a run."""

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from reports.what_if import conclusion, print_what_if, with_words
from simulator import what_if as module
from simulator.compared_metrics import (
    NAMES,
    ComparedMetric,
    is_of_steps,
    missing,
    unit_of,
    value_of,
)
from simulator.result import run
from simulator.what_if import WhatIf, answer
from tests.strategies import deployed, open_document

MADE: dict[str, Any] = {
    "requests_per_s": 2.5,
    "busy_share": 0.25,
    "kv_used_share": None,
    "ttft_s": {"mean": 3.0, "p50": 2.0, "p90": 5.2, "p95": 5.6, "p99": 5.92},
    "tpot_s": None,
    "goodput": {"share": 0.5, "requests_per_s": 0.25},
}


@pytest.mark.parametrize(
    ("name", "value", "unit"),
    [
        ("requests_per_s", 2.5, "requests/s"),
        ("busy_share", 0.25, "share"),
        ("kv_used_share", None, "share"),
        ("ttft_s", 3.0, "s"),
        ("ttft_mean_s", 3.0, "s"),
        ("ttft_p99_s", 5.92, "s"),
        ("tpot_p50_s", None, "s"),
        ("goodput", 0.5, "share"),
        ("goodput_share", 0.5, "share"),
        ("goodput_requests_per_s", 0.25, "requests/s"),
    ],
)
def test_a_name_is_a_number_with_a_unit(name: str, value: float | None, unit: str) -> None:
    """A number itself, a mean or a level of a distribution, a part of the goodput, or nothing."""
    assert value_of(MADE, name) == value
    assert unit_of(name) == unit


def test_every_name_is_of_every_run() -> None:
    """A run under open load has each of them, and none where there are no limits."""
    metrics = run(deployed(open_document("ar"), slo={"ttft": "1h"})).summary["metrics"]

    values = {name: value_of(metrics, name) for name in NAMES}
    assert {name for name, value in values.items() if value is None} <= {"kv_used_share"}
    assert values["goodput"] == 1.0
    assert values["latency_p90_s"] == metrics["latency_s"]["p90"]
    without = run(deployed(open_document("ar"))).summary["metrics"]
    assert value_of(without, "goodput") is None
    assert "slo" in missing("goodput")


def test_the_documentation_has_all_of_them() -> None:
    """docs/serving.md names every metric that can be compared, levels by their pattern."""
    text = (Path(__file__).parents[2] / "docs" / "serving.md").read_text(encoding="utf-8")
    section = text.split("## Comparing runs")[1].split("\n## ")[0]
    named = set(re.findall(r"`([a-z0-9_]+)`", section))

    for name in NAMES:
        stem = re.sub(r"_(mean|p\d+)_s$", "_s", name)
        assert stem in named, name


@pytest.mark.parametrize("name", ["ttft", "goodput_s", "ttft_p98_s", "window"])
def test_other_names_are_refused(name: str) -> None:
    """The nearest names are told."""
    with pytest.raises(ValidationError, match="no metric"):
        TypeAdapter(ComparedMetric).validate_python(name)


def test_the_interval_is_of_what_steps_make() -> None:
    """A run's interval says how far off its steps are, not its queues or its limits."""
    assert is_of_steps("latency_p99_s")
    assert is_of_steps("output_tokens_per_s")
    assert not any(map(is_of_steps, ("goodput", "ttft_p99_s", "queueing_s", "busy_share")))


def question(metric: str, better: str) -> WhatIf:
    """Columns A and B at one row."""
    return TypeAdapter(WhatIf).validate_python(
        {
            "name": "made-up",
            "question": "Which?",
            "row_name": "batch",
            "base": {},
            "rows": {1: {}},
            "columns": {"A": {}, "B": {}},
            "metric": metric,
            "better": better,
            "conclusion": "crossover",
        }
    )


def made(goodput: float | None) -> dict[str, Any]:
    """A run with that goodput."""
    share = None if goodput is None else {"share": goodput, "requests_per_s": 2 * goodput}
    return {
        "metrics": {
            "goodput": share,
            "steps": 100,
            "step_latency_s": {"mean": 0.004},
            "prefill_time_share": 0.2,
        },
        "interval": {"relative": 0.9},
        "time_shares": {"by_operation": {"decode: o": 1.0}, "by_bound": {"memory": 1.0}},
        "warnings": [],
    }


@pytest.mark.parametrize(
    ("shares", "margin", "told"),
    [
        ((0.9, 0.6), 0.5, "A beats B at every batch from 1."),
        ((0.9, 0.0), None, "A beats B at every batch from 1."),
        ((0.0, 0.9), None, "A never beats B at batch 1."),
        ((0.0, 0.0), None, "A never beats B at batch 1."),
    ],
)
def test_goodput_is_compared(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    shares: tuple[float, float],
    margin: float | None,
    told: str,
) -> None:
    """Shares by how much one is larger; beside zero there is no such number, and no interval."""
    monkeypatch.setattr(module, "summaries", lambda *_, **__: [made(share) for share in shares])
    found = answer(question("goodput", "higher"))
    (line,) = found["lines"]

    assert line["margin"] == pytest.approx(margin)
    assert line["interval"] is None
    assert line["within_interval"] is False
    assert conclusion(found) == told
    print_what_if(with_words(found))
    assert f"{100 * shares[0]:.1f} %" in capsys.readouterr().out


def test_a_run_without_limits_has_no_goodput(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell says so, and the other one stands."""
    monkeypatch.setattr(module, "summaries", lambda *_, **__: [made(None), made(0.9)])
    (line,) = answer(question("goodput", "higher"))["lines"]

    assert line["cells"]["A"]["refused"] == "a run without limits (slo) has no goodput"
    assert line["best"] == ("B",)
