"""Fronts: the points than which none is better in one column and as good in all others."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from simulator.documents import DocumentError, Mistake, known
from simulator.sweep.design import Front, SweepFile
from simulator.sweep.table import COST, METRIC_COLUMNS, Row, Value

FloatArray = npt.NDArray[np.float64]

THROUGHPUT_SPEED: Final = Front(
    higher=("output_tokens_per_s_per_gpu", "output_tokens_per_s_per_request")
)
COST_LATENCY: Final = Front(lower=(COST, "latency_p99_s"))

Group = tuple[Value, ...]
"""What the repeats of a point have in common."""


@dataclass(frozen=True)
class Member:
    """A point on a front."""

    group: Group
    means: Mapping[str, float]
    """By column of the front, over its repeats."""


def fronts_of(sweep: SweepFile, origin: str) -> dict[str, Front]:
    """The fronts that a sweep asks for, by name; raises DocumentError for unknown columns."""
    if sweep.fronts is None:
        priced = {"cost-latency": COST_LATENCY} if sweep.gpu_hour_cost is not None else {}
        return {"throughput-speed": THROUGHPUT_SPEED} | priced
    wrong = [
        Mistake(f"fronts.{name}", known(column, METRIC_COLUMNS, "column of numbers"))
        for name, front in sweep.fronts.items()
        for column in (*front.higher, *front.lower)
        if column not in METRIC_COLUMNS
    ]
    if wrong:
        raise DocumentError(origin, wrong)
    return sweep.fronts


class Fronts:
    """Takes in rows one by one, then says who is on which front."""

    def __init__(self, fronts: Mapping[str, Front], group_columns: Sequence[str]) -> None:
        """Rows that agree in the *group_columns* are repeats of one point."""
        self._fronts, self._group_columns = fronts, group_columns
        self._values: dict[str, dict[Group, list[list[float]]]] = {
            name: defaultdict(list) for name in fronts
        }

    def group(self, row: Row) -> Group:
        """What *row* has in common with its repeats."""
        return tuple(row.get(column) for column in self._group_columns)

    def take(self, row: Row) -> None:
        """Note the values of a row; one that lacks a column has no place on that front."""
        for name, front in self._fronts.items():
            values = [row.get(column) for column in (*front.higher, *front.lower)]
            numbers = [float(value) for value in values if isinstance(value, int | float)]
            if len(numbers) == len(values):
                self._values[name][self.group(row)].append(numbers)

    def members(self) -> dict[str, list[Member]]:
        """By front, the points on it, the best in its first column first."""
        return {
            name: self._members(front, self._values[name]) for name, front in self._fronts.items()
        }

    def _members(self, front: Front, values: Mapping[Group, Any]) -> list[Member]:
        if not values:
            return []
        groups = list(values)
        means = np.array([np.mean(values[group], axis=0) for group in groups])
        signs = np.array([1.0] * len(front.higher) + [-1.0] * len(front.lower))
        chosen = np.flatnonzero(on_front(means * signs))
        columns = (*front.higher, *front.lower)
        best_first = chosen[np.argsort(-(means * signs)[chosen, 0], kind="stable")]
        return [
            Member(groups[i], dict(zip(columns, means[i].tolist(), strict=True)))
            for i in best_first
        ]


def on_front(values: FloatArray) -> npt.NDArray[np.bool_]:
    """Which of [points, columns] are not beaten: none is as good in every column, better in one.

    Higher is better. Equal points are on the front together.
    """
    distinct, place = np.unique(values, axis=0, return_inverse=True)
    found = np.zeros(len(distinct), dtype=bool)
    # The last in lexicographic order is beaten by none that is left; what it beats leaves with it.
    left = np.arange(len(distinct))
    while len(left):
        best = left[-1]
        found[best] = True
        left = left[np.any(distinct[left] > distinct[best], axis=1)]
    unbeaten: npt.NDArray[np.bool_] = found[place.reshape(-1)]
    return unbeaten
