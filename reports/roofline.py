"""The roofline figure: every operation of a scenario under the GPU's two roofs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np

from reports.style import BOUND_COLOURS, LIMIT_COLOUR, STYLE, grid

LABELLED = 8
# Labels of neighbours stand at least this factor apart on the logarithmic axis.
LABEL_SPACING = 1.28


def draw(
    rows: Sequence[Mapping[str, Any]], peaks: Mapping[str, Any], hardware: str, path: Path
) -> None:
    """Write an SVG of *rows* (simulator.roofline's) under *peaks*, a panel per pass.

    Raises OSError when *path* cannot be written.
    """
    passes = list(dict.fromkeys(row["pass_name"] for row in rows))
    # Operations without arithmetic have no place on a roofline.
    shown = [row for row in rows if row["flop"] > 0]
    with mpl.rc_context(STYLE):
        figure, panels = plt.subplots(
            1,
            len(passes),
            figsize=(1.5 + 4.6 * len(passes), 4.8),
            sharex=True,
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for axes, name in zip(panels[0], passes, strict=True):
            _draw_roofs(axes, peaks, [row["intensity_flop_per_byte"] for row in shown])
            _draw_operations(axes, [row for row in shown if row["pass_name"] == name])
            axes.set(xscale="log", yscale="log", xlabel="FLOP per byte", title=f"{name} pass")
            grid(axes)
        panels[0][0].set_ylabel("TFLOP/s on one GPU")
        figure.suptitle(f"{hardware}: operations of a launch, area by share of the pass's time")
        figure.savefig(path, format="svg", metadata={"Date": None})
        plt.close(figure)


def _draw_roofs(axes: Any, peaks: Mapping[str, Any], intensities: Sequence[float]) -> None:  # noqa: ANN401 (matplotlib)
    low, high = min(intensities) / 3, max(*intensities, 1e3) * 2
    x = np.geomspace(low, high, 200)
    bandwidth, peak = peaks["memory_bytes_per_s"], peaks["bf16_flop_per_s"]
    roofs = f"data sheet: {bandwidth / 1e12:.2f} TB/s, {peak / 1e12:.0f} TFLOP/s bf16"
    roof = np.minimum(peak, x * bandwidth) / 1e12
    axes.plot(x, roof, color=LIMIT_COLOUR, linewidth=1.2, label=roofs)
    axes.set_xlim(low, high)


def _draw_operations(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:  # noqa: ANN401 (matplotlib)
    total = sum(row["seconds"] for row in rows)
    for bound, colour in BOUND_COLOURS.items():
        members = [row for row in rows if row["bound"] == bound]
        if members:
            axes.scatter(
                [row["intensity_flop_per_byte"] for row in members],
                [row["attained_flop_per_s"] / 1e12 for row in members],
                s=[20 + 900 * row["seconds"] / total for row in members],
                color=colour,
                alpha=0.55,
                label=f"bound by {bound}",
            )
    largest = sorted(rows, key=lambda row: -row["seconds"])[:LABELLED]
    _label(axes, sorted(largest, key=lambda row: float(row["attained_flop_per_s"])))
    axes.legend(loc="lower right", fontsize=7, markerscale=0.5)


def _label(axes: Any, rows: Sequence[Mapping[str, Any]]) -> None:  # noqa: ANN401 (matplotlib)
    """Name the operations, lowest first, pushed upwards where labels would overlap."""
    lowest = 0.0
    for row in rows:
        x, y = row["intensity_flop_per_byte"], row["attained_flop_per_s"] / 1e12
        lowest = max(y, lowest * LABEL_SPACING)
        axes.annotate(
            row["operation"],
            (x, y),
            xytext=(x * 1.9, lowest),
            fontsize=7,
            verticalalignment="center",
            arrowprops={"arrowstyle": "-", "color": "#999999", "linewidth": 0.5},
        )
