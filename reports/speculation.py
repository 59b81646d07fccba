"""The figures about speculative decoders in docs/reference-decoder.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt

from reports.reference_decoder import COLOURS, MARKERS, SIZE_INCHES, save
from reports.style import STYLE, grid

Point = Mapping[str, Any]
GREEDY = "greedy"


def draw_blocks(
    chains: Mapping[str, Sequence[Point]], trees: Mapping[str, Sequence[Point]], path: Path
) -> None:
    """Tokens a step over the block of chains, and over the nodes of trees.

    A point has block or tree_size, and tokens. Names end in how tokens were sampled; those that
    are alike but for that have one colour.
    """
    with mpl.rc_context(STYLE):
        figure, (left, right) = plt.subplots(
            1, 2, figsize=SIZE_INCHES, layout="constrained", width_ratios=(3, 2)
        )
        _lines(left, chains, "block")
        _lines(right, trees, "tree_size")
        left.set(xlabel="block, tokens", ylabel="tokens a draft-and-verify step")
        right.set(xlabel="drafts of a tree", ylabel="tokens a step")
        means = {
            name: ", ".join(f"{point['tokens']:.2f}" for point in points)
            for name, points in {**chains, **trees}.items()
        }
        told = "; ".join(f"{name}: {mean}" for name, mean in means.items())
        save(figure, path, "Tokens a step by block and by size of the tree", told)


def _lines(axes: Any, lines: Mapping[str, Sequence[Point]], over: str) -> None:  # noqa: ANN401 (matplotlib)
    """One line each on a logarithmic axis of *over*; dashed where tokens are sampled."""
    kinds = list(dict.fromkeys(name.rpartition(",")[0] for name in lines))
    for name, points in lines.items():
        kind = kinds.index(name.rpartition(",")[0])
        axes.plot(
            [point[over] for point in points],
            [point["tokens"] for point in points],
            color=COLOURS[kind],
            marker=MARKERS[kind],
            linestyle="-" if name.endswith(GREEDY) else "--",
            label=name,
        )
    ticks = sorted({point[over] for points in lines.values() for point in points})
    axes.set_xscale("log")
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.legend(fontsize=7, handlelength=3.5)
    grid(axes)


def draw_acceptance(curves: Mapping[str, Point], path: Path) -> None:
    """The share of steps whose first j drafts are all accepted, as observed and as fitted.

    A curve has observed and fitted, S_1 .. S_n each.
    """
    with mpl.rc_context(STYLE):
        figure, axes = plt.subplots(figsize=SIZE_INCHES, layout="constrained")
        for (name, curve), colour, marker in zip(curves.items(), COLOURS, MARKERS, strict=False):
            for kind, style in (("observed", "-"), ("fitted", ":")):
                shares = [100 * share for share in curve[kind]]
                places = range(1, len(shares) + 1)
                axes.plot(
                    places,
                    shares,
                    color=colour,
                    linestyle=style,
                    label=f"{name}, {kind}",
                    marker=marker if kind == "observed" else None,
                    markersize=3,
                )
        axes.set(xlabel="drafts j", ylabel="steps that accept the first j, %")
        axes.legend(fontsize=7, ncols=2)
        grid(axes)
        told = "; ".join(
            f"{name}: {', '.join(f'{100 * share:.0f} %' for share in curve['observed'])}"
            for name, curve in curves.items()
        )
        save(figure, path, "Acceptance by position at block 16, greedy", told)
