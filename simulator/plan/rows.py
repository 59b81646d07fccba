"""Rows: what a plan says of a candidate, as plain values."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from simulator.plan.searches import Planned
from simulator.plan.verdict import Estimate, Verdict
from simulator.plan.words import estimated, shortfall
from simulator.price import GpuPrices, cost_per_million_output_tokens
from simulator.reasons import largest_bound

STEP_METRICS = ("tokens_per_step", "batch_rows", "output_tokens_per_s_per_request")


def row_of(
    name: str,
    settings: Mapping[str, Any],
    planned: Planned | None,
    prices: GpuPrices,
    refusal: str = "",
) -> dict[str, Any]:
    """The row of a candidate; without a search its *refusal* says why."""
    row: dict[str, Any] = {
        "name": name,
        "settings": dict(settings),
        "is_met": planned is not None and planned.is_met,
        "reason": planned.reason if planned else refusal,
        "cost_per_million_output_tokens": None,
        "runs": planned.runs if planned else 0,
    }
    if planned is None or planned.verdict is None:
        return row
    return row | _found(planned, planned.verdict, settings, prices)


def _found(
    planned: Planned, verdict: Verdict, settings: Mapping[str, Any], prices: GpuPrices
) -> dict[str, Any]:
    """What there is to say where the objectives are kept."""
    deployment = planned.evaluation.deployment
    summary, tokens_per_s = verdict.outcomes[0].summary, _mean(verdict, "output_tokens_per_s")
    price = prices.of(deployment.scenario.hardware)
    model_error = float(summary["interval"]["relative"])
    tightest = verdict.tightest
    return {
        "replicas": planned.replicas,
        "tensor_parallel": deployment.scenario.parallel.tp,
        "gpus": planned.gpus,
        "rate_per_s": planned.rate_per_s,
        "output_tokens_per_s": tokens_per_s,
        "cost_per_million_output_tokens": None
        if price is None
        else cost_per_million_output_tokens(planned.gpus, tokens_per_s, price),
        "estimates": [_estimate(each, verdict) for each in verdict.estimates],
        "binds": _binds(planned, verdict),
        "beyond": None if planned.beyond is None else shortfall(planned.beyond),
        "beyond_what": planned.beyond_what,
        "headroom": [_headroom(*item) for item in planned.headroom.items()],
        "model_error": model_error,
        "is_within_model_error": tightest.objective.is_time and tightest.margin < model_error,
        "exceptions": list(planned.exceptions),
        "seeds": len(verdict.outcomes),
        "requests": summary["metrics"]["requests_finished"],
        "state": verdict.state,
        "step": _step(summary),
        "warnings": summary["warnings"],
        "run_settings": dict(settings) | dict(planned.settings),
        "scenario": planned.document,
    }


def _estimate(estimate: Estimate, verdict: Verdict) -> dict[str, Any]:
    name = estimate.objective.name
    return {
        "objective": name,
        "mean": estimate.mean,
        "half_width": estimate.half_width,
        "margin": None if estimate.mean is None else _finite(estimate.margin),
        "by_seed": [outcome.values[name] for outcome in verdict.outcomes],
        "told": estimated(estimate),
    }


def _finite(margin: float) -> float | None:
    """What JSON can hold: nothing is left where something takes for ever."""
    return margin if math.isfinite(margin) else None


def _binds(planned: Planned, verdict: Verdict) -> str:
    """What keeps the answer from being better: what fails just beyond it, or is the tightest."""
    beyond = planned.beyond
    if beyond is None or beyond.refused:
        return verdict.tightest.objective.name
    wrong = [each.objective.name for each in beyond.estimates if each.answer != "met"]
    return ", ".join(wrong) or "capacity"


def _headroom(factor: float, verdict: Verdict) -> dict[str, Any]:
    tightest = None if verdict.refused else verdict.tightest
    told = "" if tightest is None else f"{tightest.objective.name} {estimated(tightest)}"
    return {
        "load": factor,
        "answer": verdict.answer,
        "margin": None if tightest is None else _finite(tightest.margin),
        "told": told if verdict.is_met else shortfall(verdict),
    }


def _step(summary: Mapping[str, Any]) -> dict[str, Any]:
    """What a step of the answer is like."""
    metrics = summary["metrics"]
    step = metrics["step_latency_s"]
    return {
        **{name: metrics[name] for name in STEP_METRICS},
        "step_latency_s": None if step is None else step["mean"],
        "bound": dataclasses.asdict(largest_bound(summary)),
    }


def _mean(verdict: Verdict, metric: str) -> float:
    """A metric's mean over seeds."""
    return float(np.mean([outcome.summary["metrics"][metric] for outcome in verdict.outcomes]))
