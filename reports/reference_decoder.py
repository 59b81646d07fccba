"""The figures of docs/reference-decoder.md: what the reference decoders did, from their traces."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt

from reports.rendering import rendered
from reports.style import STYLE, grid, ordered_colours

SIZE_INCHES = (8.0, 3.6)
# Okabe and Ito's colours, which colour-blind people can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
# Of the figure's tokens per forward.
LABEL_WIDTH = 0.13
MARKERS = ("o", "s", "^", "D", "v", "P", "X")

Point = Mapping[str, Any]


def draw_trade_off(series: Mapping[str, Sequence[Point]], path: Path) -> None:
    """Valid solutions over tokens per forward, one line a series; bars are a standard error.

    A point has tokens_per_forward, valid and valid_standard_error as shares, and a label.
    """
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
        for (name, points), colour, marker in zip(series.items(), COLOURS, MARKERS, strict=False):
            speed = [point["tokens_per_forward"] for point in points]
            right = [100 * point["valid"] for point in points]
            bars = [100 * point["valid_standard_error"] for point in points]
            axes.errorbar(
                speed, right, bars, color=colour, marker=marker, capsize=2, linewidth=1, label=name
            )
            _labels(axes, points, above=name.startswith("masks only"))
        axes.set(
            xlabel="tokens per forward, without prefill",
            ylabel="solutions valid in every sentence, %",
        )
        axes.legend(fontsize=8, loc="lower left")
        grid(axes)
        told = "; ".join(f"{name}: {_told(points)}" for name, points in series.items())
        save(
            figure,
            path,
            "Valid solutions against tokens per forward of the reference decoders",
            told,
        )


def _labels(axes: Any, points: Sequence[Point], *, above: bool) -> None:  # noqa: ANN401 (matplotlib)
    """What each point is, but for those that would lie on the label before them."""
    last = float("-inf")
    for point in sorted(points, key=lambda point: float(point["tokens_per_forward"])):
        x, y = point["tokens_per_forward"], 100 * point["valid"]
        if x - last >= LABEL_WIDTH:
            offset = (3, 5) if above else (3, -10)
            axes.annotate(point["label"], (x, y), offset, textcoords="offset points", fontsize=7)
            last = x


def draw_gate(by_window: Mapping[int, Sequence[Point]], path: Path) -> None:
    """Tokens per forward and valid solutions over the gate theta_spawn, one line a window."""
    with mpl.rc_context(STYLE):
        figure, (speed, right) = plt.subplots(1, 2, figsize=SIZE_INCHES, layout="constrained")
        colours = ordered_colours(len(by_window))
        for (window, points), colour, marker in zip(
            by_window.items(), colours, MARKERS, strict=False
        ):
            gate = [point["theta_spawn"] for point in points]
            style = {"color": colour, "marker": marker, "linewidth": 1.2, "label": f"W={window}"}
            speed.plot(gate, [point["tokens_per_forward"] for point in points], **style)
            bars = [100 * point["valid_standard_error"] for point in points]
            right.errorbar(
                gate, [100 * point["valid"] for point in points], bars, capsize=2, **style
            )
        speed.set(xlabel="gate, theta_spawn", ylabel="tokens per forward, without prefill")
        right.set(xlabel="gate, theta_spawn", ylabel="solutions valid in every sentence, %")
        right.legend(fontsize=8)
        grid(speed)
        grid(right)
        told = "; ".join(f"W={window}: {_told(points)}" for window, points in by_window.items())
        save(
            figure, path, "Speed and valid solutions of the wavefront by its gate and window", told
        )


def draw_batches(rows: Sequence[Point], path: Path) -> None:
    """Forwards over the batch, packed and synchronous, over the batch size.

    A row has batch, packed and synchronous: forwards for the same problems.
    """
    with mpl.rc_context(STYLE):
        figure, (counts, ratio) = plt.subplots(1, 2, figsize=SIZE_INCHES, layout="constrained")
        batch = [row["batch"] for row in rows]
        for name, colour, marker in zip(("synchronous", "packed"), COLOURS, MARKERS, strict=False):
            forwards = [row[name] for row in rows]
            counts.plot(batch, forwards, color=colour, marker=marker, label=name)
        counts.set(xlabel="rows of a batch", ylabel="forwards over a batch, all problems")
        counts.set(xscale="log", yscale="log")
        counts.legend(fontsize=8)
        both = [row["synchronous"] / row["packed"] for row in rows]
        ratio.plot(batch, both, color=COLOURS[2], marker="o")
        ratio.set(xlabel="rows of a batch", ylabel="synchronous over packed", xscale="log")
        ratio.set_ylim(bottom=0.95)
        for axes in (counts, ratio):
            axes.set_xticks(batch, [str(rows) for rows in batch])
            axes.set_xticks([], minor=True)
            grid(axes)
        told = "; ".join(
            f"{row['batch']} rows: {row['packed']} packed, {row['synchronous']} synchronous"
            for row in rows
        )
        save(figure, path, "Forwards of packed and batch-synchronous wavefronts", told)


def draw_readiness(series: Mapping[str, Point], path: Path) -> None:
    """Readiness before the update, and tokens revealed, over a block's local steps.

    A series has step, readiness (shares) and revealed (tokens), lists of one length.
    """
    with mpl.rc_context(STYLE):
        figure, (ready, revealed) = plt.subplots(1, 2, figsize=SIZE_INCHES, layout="constrained")
        for (name, curve), colour, marker in zip(series.items(), COLOURS, MARKERS, strict=False):
            style = {"color": colour, "marker": marker, "markersize": 3, "label": name}
            ready.plot(curve["step"], [100 * share for share in curve["readiness"]], **style)
            revealed.plot(curve["step"], curve["revealed"], **style)
        ready.set(xlabel="local step of a block", ylabel="masks that are ready, %")
        revealed.set(xlabel="local step of a block", ylabel="tokens revealed")
        revealed.legend(fontsize=8)
        grid(ready)
        grid(revealed)
        told = "; ".join(
            f"{name}: ready {', '.join(f'{100 * share:.0f} %' for share in curve['readiness'])}"
            for name, curve in series.items()
        )
        save(figure, path, "Readiness and revealed tokens by local step of a block", told)


def _told(points: Sequence[Point]) -> str:
    """Points in words, for those who cannot see them."""
    return ", ".join(
        f"{point['tokens_per_forward']:.2f} tokens at {100 * point['valid']:.1f} %"
        for point in points
    )


def save(figure: Any, path: Path, title: str, told: str) -> None:  # noqa: ANN401 (matplotlib)
    """Write *figure* to *path* with its title, and in words what it shows, and close it."""
    content = rendered(figure, path.suffix, {"Title": title, "Description": told})
    plt.close(figure)
    path.write_bytes(content)
