"""Which of the shapes that were measured a figure has room for."""

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

Shape = tuple[float, ...]


def typical(rows: pd.DataFrame, names: Sequence[str], most: int) -> list[Shape]:
    """At most *most* shapes of *rows*, small to large, among those with many points.

    Many is half as many as the shape with the most; a shape is the values of *names*.
    """
    counts = rows.groupby(list(names)).size()
    frequent = counts[counts >= counts.max() / 2].index.to_frame(index=False)
    ordered = sorted(frequent.itertuples(index=False, name=None), key=lambda s: (math.prod(s), s))
    picks = np.unique(np.linspace(0, len(ordered) - 1, most).round().astype(int))
    return [ordered[pick] for pick in picks]


def middle(rows: pd.DataFrame, names: Sequence[str]) -> Shape:
    """The middle one, by size, of the shapes of *rows* with many points."""
    ordered = typical(rows, names, len(rows))
    return ordered[len(ordered) // 2]


def of_shape(rows: pd.DataFrame, names: Sequence[str], shape: Shape) -> pd.DataFrame:
    """The *rows* with this shape."""
    chosen = np.ones(len(rows), dtype=np.bool_)
    for name, value in zip(names, shape, strict=True):
        chosen &= (rows[name] == value).to_numpy()
    return rows[chosen]


def within(value: float, bounds: tuple[float, float]) -> float:
    """*value*, or the bound that it passes."""
    return min(max(value, bounds[0]), bounds[1])
