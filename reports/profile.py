"""What was measured on a machine, told in a few lines and a table."""

import statistics
from collections.abc import Mapping
from typing import Any

from reports.terminal import console, table
from reports.units import percent, seconds


def print_profile(answer: Mapping[str, Any]) -> None:
    """What was measured, where it is, and how well each curve holds on held-out points."""
    out = console()
    counts = f"{answer['measured']} points measured now"
    if answer["skipped"]:
        counts += f", {answer['skipped']} too large for memory or refused"
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


def print_passes(answer: Mapping[str, Any]) -> None:
    """Whole passes as measured and as the profile's curves add up."""
    out = console()
    rows = [
        (
            row["model"],
            str(row["sequences"]),
            str(row["query_tokens"]),
            str(row["prefix_tokens"]),
            seconds(row["measured_s"]),
            seconds(row["predicted_s"]),
            f"{100 * row['error']:+.1f} %",
        )
        for row in answer["passes"]
    ]
    columns = ("model", "sequences", "queries", "prefix", "measured", "predicted", "error")
    if rows:
        errors = sorted(abs(row["error"]) for row in answer["passes"])
        out.print(table("Whole forward passes", columns, rows))
        out.print(
            f"{len(errors)} passes: median error {percent(statistics.median(errors))}, "
            f"worst {percent(errors[-1])}; nothing here was fitted to them"
        )
    else:
        out.print("no profile of that name lies beside them to compare with; run without --passes")
    out.print(f"raw samples: {answer['samples']}")
