"""Fidelity: where a result's inputs come from, and the interval that their residuals make."""

import math
from collections.abc import Mapping
from typing import Any

from hwprofiles import Residual
from simulator.cost import residual_of
from simulator.deployment import Deployment
from simulator.ops import Op
from simulator.replay.block_pace import BlockPace
from simulator.replay.iteration_pace import IterationPace
from simulator.step_cost import ENGINE, CostAccount

# 90th percentile over 91 published chains of the error at block 8 predicted from 4 and 16.
LEFT_OUT_ACCEPTANCE_ERROR = 0.065
INTERVAL_BASIS = (
    "each kernel's time off by its curve's 90th-percentile residual, the engine's by its fit's, "
    "acceptance by its own, independent of one another"
)
OPEN_BASIS = (
    "the load sets the rate: never above what is offered, and below it only so far as batches or "
    "cache would be full all the time"
)


def error_terms(deployment: Deployment, account: CostAccount, ops: list[Op]) -> dict[str, float]:
    """Relative error that each input puts on the run's time, by input."""
    by_curve: dict[tuple[str, str], Residual] = {
        (op.kernel, op.precision): residual_of(deployment.hardware, op) for op in ops
    }
    terms = {
        f"{precision} {kernel}": account.share(seconds) * by_curve[kernel, precision].p90
        for (kernel, precision), seconds in account.seconds_by_kernel.items()
        if (kernel, precision) in by_curve
    }
    if deployment.engine.calibration is not None:
        terms[f"engine {deployment.engine.name}"] = deployment.engine.calibration.p90_residual
    if isinstance(deployment.pace, IterationPace | BlockPace):
        terms["acceptance"] = deployment.pace.relative_error
    if deployment.acceptance is not None:
        decode = deployment.scenario.decode
        published = deployment.acceptance.is_published(decode.block, decode.acceptance_tree_size)
        fitted = deployment.acceptance.residual
        terms["acceptance"] = fitted if published else max(fitted, LEFT_OUT_ACCEPTANCE_ERROR)
    return terms


def interval(
    metrics: Mapping[str, Any],
    terms: dict[str, float],
    offered_tokens_per_s: float | None = None,
    filled_share: float = 1.0,
) -> dict[str, Any]:
    """Low and high of the rate and the step whose times are off by the *terms* in quadrature.

    *offered_tokens_per_s* is what requests under open load ask for, None under closed load. Slower
    steps only fill the batches more, of which *filled_share* is in use, until they are full, and
    nobody serves more than is asked.
    """
    relative = math.sqrt(sum(term**2 for term in terms.values()))
    rate, step = metrics["output_tokens_per_s"], metrics["step_latency_s"]
    if offered_tokens_per_s is None:
        low, high, basis = rate / (1 + relative), rate * (1 + relative), INTERVAL_BASIS
    else:
        low = rate / max(1.0, filled_share * (1 + relative))
        high = max(rate, min(rate * (1 + relative), offered_tokens_per_s))
        basis = f"{INTERVAL_BASIS}; {OPEN_BASIS}"
    return {
        "output_tokens_per_s": {"low": low, "high": high},
        "step_latency_s": _around(step["mean"], relative) if step else None,
        "relative": relative,
        "basis": basis,
        "terms": terms,
    }


def _around(mean: float, relative: float) -> dict[str, float]:
    return {"low": mean * max(0.0, 1 - relative), "high": mean * (1 + relative)}


def fidelity(deployment: Deployment, account: CostAccount, ops: list[Op]) -> dict[str, Any]:
    """What was measured, fitted, published or assumed, in words that lead to the source."""
    kernels = {}
    for op in ops:
        residual = residual_of(deployment.hardware, op)
        seconds = account.seconds_by_kernel.get((op.kernel, op.precision), 0.0)
        kernels[f"{op.precision} {op.kernel}"] = {
            "share_of_time": account.share(seconds),
            "residual_median": residual.median,
            "residual_p90": residual.p90,
            "points": residual.points,
        }
    engine = deployment.engine
    calibration = engine.calibration
    return {
        "replay": deployment.pace.replay,
        "workload": list(deployment.scenario.workload.notes),
        "acceptance": _acceptance(deployment),
        "hardware": f"{deployment.hardware.name}: {deployment.hardware.description}",
        "kernels": kernels,
        "engine": f"{engine.name}: " + (calibration.source if calibration else engine.source),
        "engine_share_of_time": account.share(account.seconds_by_bound.get(ENGINE, 0.0)),
        "model": f"{deployment.model.name}: {deployment.model.source}",
    }


def _acceptance(deployment: Deployment) -> str:
    if isinstance(deployment.pace, IterationPace | BlockPace):
        return _captured(deployment.pace)
    trace, model = deployment.trace, deployment.acceptance
    if trace is None or model is None:
        per = "forward" if hasattr(deployment.scenario.decode, "tokens_per_forward") else "step"
        return f"constant {deployment.pace.mean_tokens:g} tokens per {per}, as given"
    parameters = deployment.scenario.decode
    published = model.is_published(parameters.block, parameters.acceptance_tree_size)
    origin = "published cell" if published else f"fit, residual {model.residual:.1%}"
    return f"{trace.name} ({trace.kind}), benchmark {model.benchmark}: {origin}; {trace.source}"


def _captured(pace: IterationPace | BlockPace) -> str:
    """The trace, and what stands for what where it is not replayed as it was."""
    manifest = pace.trace.manifest
    at = f"{manifest.policy} at block {manifest.block_tokens}"
    where = (
        f"{manifest.name} (captured): {at}, {manifest.task}, {manifest.counts.requests} requests"
    )
    if pace.replay == "exact":
        return f"{where}, each as it was"
    per = "forward as captured" if isinstance(pace, BlockPace) else "step"
    error = f"sampling error {pace.sampling_error:.1%}"
    how = f"mean {pace.mean_tokens:.3g} tokens per {per}, {error}"
    drawn = "" if pace.repeats or pace.replay == "resampled" else ", resampled"
    return f"{where}; {pace.replay}{drawn}, {how}"
