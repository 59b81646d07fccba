"""A new hardware profile, told in a few lines and a table."""

from collections.abc import Mapping
from typing import Any

from reports.terminal import console, table
from reports.units import percent


def print_profile(answer: Mapping[str, Any]) -> None:
    """What was measured, where it is, and how well each curve holds on held-out points."""
    out = console()
    counts = f"{answer['measured']} points measured now"
    if answer["skipped"]:
        counts += f", {answer['skipped']} too large for the memory allowed"
    if answer["left"]:
        counts += f", {answer['left']} of the grid left: the same command goes on"
    out.print(counts)
    rows = [
        (
            f"{curve['precision']} {curve['kernel']}".strip(),
            curve["form"],
            percent(curve["residual_median"]),
            percent(curve["residual_p90"]),
            str(curve["points"]),
        )
        for curve in answer["kernels"]
    ]
    columns = ("curve", "form", "median error", "90th percentile", "held-out points")
    out.print(table("Curves on points kept out of their fit", columns, rows))
    out.print(f"profile: {answer['profile']}")
    out.print(f"raw samples: {answer['samples']}")
