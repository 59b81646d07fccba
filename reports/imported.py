"""What was made of tables that others measured, told in a few lines and a table."""

from collections.abc import Mapping
from typing import Any

from reports.terminal import console, table
from reports.units import percent


def print_imported(answer: Mapping[str, Any]) -> None:
    """The curves with their points and residuals, what was left out, and where the files are."""
    out = console()
    rows = [
        (
            f"{curve['precision']} {curve['kernel']}".strip(),
            str(curve["all_points"]),
            str(curve["points"]),
            percent(curve["residual_median"]),
            percent(curve["residual_p90"]),
        )
        for curve in answer["kernels"]
    ]
    columns = ("curve", "points", "held out", "median error", "90th percentile")
    out.print(table(f"Curves of {answer['name']}, errors on points held out", columns, rows))
    if answer["left_out_rows"]:
        told = ", ".join(f"{count} of {name}" for name, count in answer["left_out_rows"].items())
        out.print(f"rows of data types that no profile has: {told}", soft_wrap=True)
    out.print(f"points: {answer['samples']}", soft_wrap=True)
    out.print(f"profile: {answer['profile']}", soft_wrap=True)
