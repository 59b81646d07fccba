"""The figure of training runs: the loss of every step, its moving median, the learning rate."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

from reports.rendering import rendered
from reports.style import STYLE, grid, ticks

# Of recipes: Okabe and Ito's, which colour-blind people can tell apart.
KINDS = ("#0072b2", "#d55e00", "#000000", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")

# Steps of the moving median: a share of the run, at least a few.
SMOOTHED_SHARE, LEAST_SMOOTHED = 0.03, 5
RAW: dict[str, Any] = {"marker": ".", "linestyle": "", "markersize": 2.0, "alpha": 0.25}
SIZE_INCHES = (8.0, 5.6)
# A loss of zero has no place on a logarithmic axis.
LEAST_LOSS = 1e-4
# Around what is drawn, as a factor; less of an axis than the other has too few round numbers.
ROOM, LEAST_SPAN = 1.3, 4.0


def draw(curves: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Write *curves* as an SVG or PNG, by the suffix: losses above, learning rates below.

    A curve has a name, the losses of its steps in nats a token and, of each, the
    learning_rate_shares. Raises OSError when *path* cannot be written.
    """
    with mpl.rc_context(STYLE):
        figure, (losses, rates) = plt.subplots(
            2, 1, figsize=SIZE_INCHES, sharex=True, height_ratios=(4, 1), layout="constrained"
        )
        for curve, colour in zip(curves, cycle(KINDS), strict=False):
            _curve(losses, rates, curve, colour)
        _loss_axis(losses, curves)
        losses.legend(loc="upper right", fontsize=8, framealpha=0.9, title="final loss")
        rates.set(xlabel="step", ylabel="learning rate,\nshare", ylim=(0.0, 1.08))
        rates.set_xlim(left=0)
        grid(rates)
        title = f"Training loss of {', '.join(str(curve['name']) for curve in curves)}"
        losses.set_title("Training loss of every step (dots) and its moving median", fontsize=10)
        content = rendered(figure, path.suffix, {"Title": title, "Description": _told(curves)})
        plt.close(figure)
    path.write_bytes(content)


def moving_median(values: npt.ArrayLike, width: int) -> npt.NDArray[np.float64]:
    """Of the *width* values around each.

    At the beginning, where losses fall fast, of fewer, as many before as behind; at the end of
    those that there are.
    """
    given = np.asarray(values, dtype=np.float64)
    sides = [min(width // 2, at) for at in range(len(given))]
    return np.array([np.median(given[at - s : at + s + 1]) for at, s in enumerate(sides)])


def _smooth(curve: Mapping[str, Any]) -> npt.NDArray[np.float64]:
    width = max(LEAST_SMOOTHED, round(SMOOTHED_SHARE * len(curve["losses"])))
    return moving_median(np.maximum(curve["losses"], LEAST_LOSS), width)


def _curve(losses: Any, rates: Any, curve: Mapping[str, Any], colour: str) -> None:  # noqa: ANN401 (matplotlib)
    steps = np.arange(1, len(curve["losses"]) + 1)
    label = f"{curve['name']}: {curve['final_loss']:.3g}"
    shown = np.maximum(curve["losses"], LEAST_LOSS)
    losses.plot(steps, shown, color=colour, zorder=2, **RAW)
    losses.plot(steps, _smooth(curve), color=colour, zorder=3, linewidth=1.5, label=label)
    rates.plot(steps, curve["learning_rate_shares"], color=colour, linewidth=1.3)


def _loss_axis(axes: Any, curves: Sequence[Mapping[str, Any]]) -> None:  # noqa: ANN401 (matplotlib)
    """Logarithmic, from the least loss to the greatest, with round numbers on it."""
    shown = [max(value, LEAST_LOSS) for curve in curves for value in curve["losses"]]
    middle = np.sqrt(min(shown) * max(shown))
    spread = np.sqrt(max(max(shown) / min(shown) * ROOM, LEAST_SPAN))
    low, high = float(middle / spread), float(middle * spread)
    axes.set(yscale="log", ylim=(low, high), ylabel="loss, nats per token")
    at = ticks(low, high)
    axes.set_yticks(at, [f"{tick:g}" for tick in at])
    axes.set_yticks([], minor=True)
    grid(axes)


def _told(curves: Sequence[Mapping[str, Any]]) -> str:
    """The figure in words."""
    return " ".join(
        f"{curve['name']}: {len(curve['losses'])} steps, loss {curve['losses'][0]:.3g} at first, "
        f"{curve['final_loss']:.3g} nats a token at the end."
        for curve in curves
    )
