"""The roofline figure: every operation of a scenario under the GPU's two roofs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np

# Operations without arithmetic have no place on a roofline.
COLOURS = {"compute": "#b2182b", "memory": "#2166ac", "link": "#1b7837", "launch": "#777777"}
# Fixed, so that equal scenarios give equal files.
STYLE: dict[Any, Any] = {"svg.hashsalt": "blockcast", "font.size": 9, "svg.fonttype": "path"}


def draw(
    rows: Sequence[Mapping[str, Any]], peaks: Mapping[str, Any], hardware: str, path: Path
) -> None:
    """Write an SVG of *rows* (simulator.roofline's) under *peaks*; raises OSError."""
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=(8.5, 5.2), layout="constrained")
        shown = [row for row in rows if row["flop"] > 0]
        _draw_roofs(axes, peaks, [row["intensity_flop_per_byte"] for row in shown])
        _draw_operations(axes, shown)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="arithmetic intensity, FLOP per byte",
            ylabel="TFLOP/s on one GPU",
            title=f"Operations of one step on {hardware} (area: share of the time)",
        )
        axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def _draw_roofs(axes: Any, peaks: Mapping[str, Any], intensities: Sequence[float]) -> None:  # noqa: ANN401 (matplotlib)
    low, high = min(intensities) / 3, max(*intensities, 1e3) * 3
    x = np.geomspace(low, high, 200)
    bandwidth, peak = peaks["memory_bytes_per_s"], peaks["bf16_flop_per_s"]
    axes.plot(x, np.minimum(peak, x * bandwidth) / 1e12, color="black", linewidth=1.2)
    roofs = f"{bandwidth / 1e12:.2f} TB/s and {peak / 1e12:.0f} TFLOP/s (bf16), data sheet"
    axes.plot([], [], color="black", label=roofs)
    axes.set_xlim(low, high)


def _draw_operations(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:  # noqa: ANN401 (matplotlib)
    total = sum(row["seconds"] for row in rows)
    for bound, colour in COLOURS.items():
        members = [row for row in rows if row["bound"] == bound]
        axes.scatter(
            [row["intensity_flop_per_byte"] for row in members],
            [row["attained_flop_per_s"] / 1e12 for row in members],
            s=[30 + 900 * row["seconds"] / total for row in members],
            color=colour,
            alpha=0.55,
            label=f"bound by {bound}" if members else None,
        )
    for row in sorted(rows, key=lambda row: -row["seconds"])[:10]:
        axes.annotate(
            f"{row['pass_name']}: {row['operation']}",
            (row["intensity_flop_per_byte"], row["attained_flop_per_s"] / 1e12),
            xytext=(6, -9),
            textcoords="offset points",
            fontsize=7,
        )
    axes.legend(loc="lower right", fontsize=8, markerscale=0.6)
