"""What was measured on a machine, beside what its profile says."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hwprofiles import HardwareProfile
from simulator.cost import price
from simulator.model import ModelSpec
from simulator.ops import DataType, Placement, Precision, StepLoad
from simulator.schedule import loads
from simulator.work import pass_ops


def profile_summary(
    profile: HardwareProfile, counts: Mapping[str, int], path: Path, samples: Path
) -> dict[str, Any]:
    """Where a new profile and its samples are, how many points there are, and the residuals."""
    return {
        "profile": str(path),
        "samples": str(samples),
        "environment": profile.environment,
        **counts,
        "kernels": [
            {
                "kernel": kernel,
                "precision": precision,
                "form": curve.form,
                "residual_median": curve.residual.median,
                "residual_p90": curve.residual.p90,
                "points": curve.residual.points,
            }
            for kernel, precision, curve in profile.kernels.curves()
        ],
    }


def pass_s(
    hardware: HardwareProfile, model: ModelSpec, precision: DataType, sizes: Mapping[str, float]
) -> float:
    """Seconds of one pass: *sequences* of *query_tokens*, each with logits, on a *prefix_tokens*.

    The sum of its kernels, nothing of an engine added. Raises MissingKernelError.
    """
    query = int(sizes["query_tokens"])
    one = loads(1, query=query, context=int(sizes["prefix_tokens"]), logits=query)
    batch = StepLoad(np.repeat(one[:, None, :], int(sizes["sequences"]), axis=1))
    placement = Placement(precision=Precision(precision, precision))
    ops = pass_ops(model, batch, placement)
    return float(sum(cost.seconds[0] for cost in price(hardware, ops)))


def pass_comparison(
    hardware: HardwareProfile, model: ModelSpec, samples: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Measured and predicted seconds of whole passes, a row for each that has a time."""
    rows = []
    for sample in samples:
        if np.isfinite(sample["seconds"] or np.nan):
            sizes = {name: int(sample[name]) for name in PASS_SIZES}
            predicted_s = pass_s(hardware, model, sample["precision"], sizes)
            error = predicted_s / sample["seconds"] - 1
            row = {"measured_s": sample["seconds"], "predicted_s": predicted_s, "error": error}
            rows.append({"model": model.name, "precision": sample["precision"]} | sizes | row)
    return rows


PASS_SIZES = ("sequences", "query_tokens", "prefix_tokens")
