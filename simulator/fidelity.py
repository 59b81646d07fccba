"""Fidelity: where a result's inputs come from, and the interval that their residuals make."""

import math
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


def error_terms(deployment: Deployment, account: CostAccount, ops: list[Op]) -> dict[str, float]:
    """Relative error that each input puts on the run's time, by input."""
    by_curve: dict[tuple[str, str], Residual] = {
        (op.kernel, op.precision): residual_of(deployment.hardware, op) for op in ops
    }
    terms = {
        f"{precision} {kernel}": seconds / account.total_s * by_curve[kernel, precision].p90
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


def interval(rate: float, terms: dict[str, float]) -> dict[str, Any]:
    """Low and high of a rate whose time is off by the *terms* in quadrature."""
    relative = math.sqrt(sum(term**2 for term in terms.values()))
    return {
        "output_tokens_per_s": {"low": rate / (1 + relative), "high": rate * (1 + relative)},
        "relative": relative,
        "basis": INTERVAL_BASIS,
        "terms": terms,
    }


def fidelity(deployment: Deployment, account: CostAccount, ops: list[Op]) -> dict[str, Any]:
    """What was measured, fitted, published or assumed, in words that lead to the source."""
    kernels = {}
    for op in ops:
        residual = residual_of(deployment.hardware, op)
        seconds = account.seconds_by_kernel.get((op.kernel, op.precision), 0.0)
        kernels[f"{op.precision} {op.kernel}"] = {
            "share_of_time": seconds / account.total_s,
            "residual_median": residual.median,
            "residual_p90": residual.p90,
            "points": residual.points,
        }
    engine = deployment.engine
    calibration = engine.calibration
    return {
        "replay": deployment.pace.replay,
        "acceptance": _acceptance(deployment),
        "hardware": f"{deployment.hardware.name}: {deployment.hardware.description}",
        "kernels": kernels,
        "engine": f"{engine.name}: " + (calibration.source if calibration else engine.source),
        "engine_share_of_time": account.seconds_by_bound.get(ENGINE, 0.0) / account.total_s,
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
