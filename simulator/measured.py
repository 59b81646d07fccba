"""What a new profile amounts to, as plain values."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hwprofiles import HardwareProfile


def summary(
    profile: HardwareProfile, counts: Mapping[str, int], path: Path, samples: Path
) -> dict[str, Any]:
    """Where the profile and its samples are, how many points there are, and the residuals."""
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
