"""What figures have in common: colours, type, axes. One visual language for all of them."""

from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np

from reports.units import prefixed, seconds

# Of what bounds an operation.
BOUND_COLOURS = {"compute": "#b2182b", "memory": "#2166ac", "link": "#1b7837", "launch": "#777777"}
LIMIT_COLOUR = "black"
# Fixed, so that equal inputs give equal files.
STYLE: dict[Any, Any] = {"svg.hashsalt": "blockcast", "font.size": 9, "svg.fonttype": "path"}
# Sizes, dark to light: told apart by lightness alone. The lightest yellows are lost on white.
LIGHTEST = 0.86
# Decades on an axis from which every second one has a label, and up to which 2 and 5 have too.
MANY_DECADES, FEW_DECADES = 6, 2


def ordered_colours(count: int) -> list[str]:
    """*count* colours that go from dark to light, for series in order of size."""
    steps = np.linspace(0.0, LIGHTEST, count) if count > 1 else [0.35]
    return [mpl.colors.to_hex(mpl.colormaps["viridis"](step)) for step in steps]


def grid(axes: Any) -> None:  # noqa: ANN401 (matplotlib)
    """Faint lines behind everything."""
    axes.set_axisbelow(True)
    axes.grid(visible=True, which="major", color="#dddddd", linewidth=0.6)


def ticks(low: float, high: float) -> list[float]:
    """Round numbers on a logarithmic axis from *low* to *high*: few enough to be read."""
    first, last = int(np.floor(np.log10(low))), int(np.ceil(np.log10(high)))
    decades = np.log10(high / low)
    leading = (1.0, 2.0, 5.0) if decades <= FEW_DECADES else (1.0,)
    every = 2 if decades > MANY_DECADES else 1
    found = [lead * 10.0**e for e in range(first, last + 1) if e % every == 0 for lead in leading]
    return [tick for tick in found if low <= tick <= high]


def tick_words(unit: str) -> Callable[[float], str]:
    """How a tick of *unit* is written: with a prefix where the unit takes one."""
    if unit == "s":
        return seconds
    if unit in {"B", "B/s", "FLOP/s"}:
        return lambda value: prefixed(value, unit)
    return lambda value: f"{value:,g}"
