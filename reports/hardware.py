"""The figure of a hardware profile: a panel per kernel, curves with measured points on them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from reports.rendering import rendered
from reports.style import LIMIT_COLOUR, STYLE, grid, ordered_colours, tick_words, ticks
from reports.units import prefixed

COLUMNS = 3
PANEL_INCHES = (4.6, 3.7)
# Points lie on their curve, so both may be faint.
CURVE: dict[str, Any] = {"linewidth": 1.3}
DOTTED: dict[str, Any] = {"linestyle": (0, (1.0, 1.6))}
BAND: dict[str, Any] = {"alpha": 0.16, "linewidth": 0.0}
FITTED: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 2.8, "alpha": 0.75}
HELD_OUT: dict[str, Any] = {
    "marker": "D",
    "linestyle": "",
    "markersize": 4.6,
    "markerfacecolor": "white",
    "markeredgewidth": 1.1,
}
KEY_COLOUR = "#555555"
# Room around what is drawn, as a factor on a logarithmic axis.
ROOM = 1.3
# Less of an axis than this factor has too few round numbers on it.
LEAST_SPAN = 4.0
# Of a panel's height and width.
LEGEND_EDGE, LEGEND_ENTRY, LEGEND_WIDTH = 0.05, 0.042, 0.68
# How far below the lowest curve a limit is followed.
BELOW = 3.0


def draw(panels: Sequence[Mapping[str, Any]], name: str, description: str, path: Path) -> None:
    """Write *panels* (simulator.hardware_view's, as mappings) as an SVG or PNG, by the suffix.

    Raises OSError when *path* cannot be written.
    """
    rows = -(-len(panels) // COLUMNS)
    size = (COLUMNS * PANEL_INCHES[0], rows * PANEL_INCHES[1] + 0.9)
    with mpl.rc_context(STYLE):
        figure, places = plt.subplots(
            rows, COLUMNS, figsize=size, squeeze=False, layout="constrained"
        )
        for axes, panel in zip(places.flat, panels, strict=False):
            _panel(axes, panel)
        for axes in places.flat[len(panels) :]:
            axes.set_axis_off()
        figure.suptitle(f"{name}: {description}\n{basis(panels)}", fontsize=11)
        key = _key(panels)
        figure.legend(handles=key, loc="outside lower center", ncols=len(key), frameon=False)
        words = {"Title": f"{name}: {description}", "Description": alternative(panels)}
        content = rendered(figure, path.suffix, words)
        plt.close(figure)
    path.write_bytes(content)


def basis(panels: Sequence[Mapping[str, Any]]) -> str:
    """What the figure shows beside curves."""
    held_out = [flag for panel in panels for each in panel["series"] for flag in _flags(each)]
    if not held_out:
        return "fitted curves with their 90th-percentile error; no points lie beside the profile"
    return "fitted curves, the points they were fitted to, and points held out of every fit"


def alternative(panels: Sequence[Mapping[str, Any]]) -> str:
    """The figure in words, for those who cannot see it."""
    return f"{basis(panels)}. " + " ".join(_sentence(panel) for panel in panels)


def _sentence(panel: Mapping[str, Any]) -> str:
    """Axes, curves with their ends, and how many points there are."""
    x, y = tick_words(panel["x"]["unit"]), tick_words(panel["y"]["unit"])
    curves = "; ".join(
        f"{each['label']}, {y(each['y'][0])} at {x(each['x'][0])} "
        f"to {y(each['y'][-1])} at {x(each['x'][-1])}"
        for each in panel["series"]
    )
    held_out = [flag for each in panel["series"] for flag in _flags(each)]
    count = f"{len(held_out)} points, {sum(held_out)} of them held out" if held_out else "no points"
    axes = f"{panel['y']['name']} against {panel['x']['name']}"
    return f"{panel['title']} ({panel['note']}), {axes}: {curves}; {count}."


def _flags(series: Mapping[str, Any]) -> Sequence[bool]:
    held_out: Sequence[bool] = series["marks"]["held_out"]
    return held_out


def _panel(axes: Any, panel: Mapping[str, Any]) -> None:  # noqa: ANN401 (matplotlib)
    for limit in panel["limits"]:
        rates = ", ".join(prefixed(rate, unit) for rate, unit in limit["rates"])
        words = f"{limit['words']}: {rates}"
        axes.plot(limit["x"], limit["y"], color=LIMIT_COLOUR, linewidth=1.0, label=words)
    for each, colour in zip(panel["series"], ordered_colours(len(panel["series"])), strict=True):
        _series(axes, each, colour)
    axes.set(xscale="log", yscale="log")
    axes.set_title(f"{panel['title']}\n", fontsize=9.5)
    axes.text(0.5, 1.02, panel["note"], transform=axes.transAxes, ha="center", fontsize=7.5)
    # Times rise from the lower left, and rates level off to the right.
    corner = "upper left" if panel["y"]["unit"] == "s" else "lower right"
    _axis(axes.xaxis, axes.set_xlim, panel["x"], _extent(panel, "x"))
    _axis(axes.yaxis, axes.set_ylim, panel["y"], _with_legend(panel, corner))
    grid(axes)
    axes.legend(loc=corner, fontsize=7, framealpha=0.85, borderpad=0.3, labelspacing=0.25)


def _series(axes: Any, series: Mapping[str, Any], colour: str) -> None:  # noqa: ANN401 (matplotlib)
    line = CURVE | (DOTTED if series["is_extrapolated"] else {})
    axes.plot(series["x"], series["y"], color=colour, label=series["label"], **line)
    held_out = np.asarray(_flags(series), dtype=np.bool_)
    if not held_out.size:
        axes.fill_between(series["x"], series["low"], series["high"], color=colour, **BAND)
        return
    x, y = (np.asarray(series["marks"][name]) for name in ("x", "y"))
    axes.plot(x[~held_out], y[~held_out], color=colour, zorder=3, **FITTED)
    axes.plot(x[held_out], y[held_out], color=colour, zorder=4, **HELD_OUT)


def _extent(panel: Mapping[str, Any], name: str) -> tuple[float, float]:
    """From the least to the greatest number that has to be seen."""
    shown = _shown(panel, name)
    low, high = min(shown), max(shown)
    if name == "y":
        limits = [v for limit in panel["limits"] for v in limit["y"]]
        low, high = min([low, *(v for v in limits if v > low / BELOW)]), max([high, *limits])
    middle = np.sqrt(low * high)
    spread = max(np.sqrt(high / low) * ROOM, np.sqrt(LEAST_SPAN))
    return float(middle / spread), float(middle * spread)


def _with_legend(panel: Mapping[str, Any], corner: str) -> tuple[float, float]:
    """The y axis, made longer where something would lie under the legend in *corner*."""
    left, right = _extent(panel, "x")
    extent = np.log(_extent(panel, "y"))
    x, y = (np.log(_shown(panel, name)) for name in ("x", "y"))
    across = (x - np.log(left)) / np.log(right / left)
    height = LEGEND_EDGE + LEGEND_ENTRY * (len(panel["series"]) + len(panel["limits"]))
    low, high = extent
    # What is nearest to the corner has to stay a legend's height away from the end of the axis.
    if corner == "upper left":
        nearest = y[across <= LEGEND_WIDTH].max(initial=low)
        high = max(high, (nearest - height * low) / (1.0 - height))
    else:
        nearest = y[across >= 1.0 - LEGEND_WIDTH].min(initial=high)
        low = min(low, (nearest - height * high) / (1.0 - height))
    return float(np.exp(low)), float(np.exp(high))


def _shown(panel: Mapping[str, Any], name: str) -> list[float]:
    return [v for each in panel["series"] for v in (*each[name], *each["marks"][name])]


def _axis(axis: Any, limit: Any, what: Mapping[str, Any], extent: tuple[float, float]) -> None:  # noqa: ANN401 (matplotlib)
    limit(*extent)
    at = ticks(*extent)
    axis.set_ticks(at, [tick_words(what["unit"])(tick) for tick in at])
    axis.set_ticks([], minor=True)
    unit = {"FLOP/B": " (FLOP per byte)", "tokens": " (tokens)"}.get(what["unit"], "")
    axis.set_label_text(what["name"] if what["name"] in unit else f"{what['name']}{unit}")


def _key(panels: Sequence[Mapping[str, Any]]) -> list[Any]:
    """What lines and marks mean in every panel; only those that there are."""
    every = [each for panel in panels for each in panel["series"]]
    held_out = [flag for each in every for flag in _flags(each)]
    lacking = [each for each in every if not _flags(each)]
    dotted = [each for each in every if each["is_extrapolated"]]
    mark: dict[str, Any] = {"color": KEY_COLOUR}
    curve = mark | CURVE
    found: list[tuple[bool, Any]] = [
        (True, Line2D([], [], label="fitted curve", **curve)),
        (bool(dotted), Line2D([], [], label="outside its fitted range", **curve, **DOTTED)),
        (not all(held_out), Line2D([], [], label="fitted point", **mark, **FITTED)),
        (any(held_out), Line2D([], [], label="held-out point", **mark, **HELD_OUT)),
        (bool(lacking), Patch(label="90th-percentile error", **mark, **BAND)),
        (True, Line2D([], [], label="limit", color=LIMIT_COLOUR, linewidth=1.0)),
    ]
    return [handle for is_there, handle in found if is_there]
