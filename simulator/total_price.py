"""TotalPrice: what depends on one total of the batch at a time, looked up in tables."""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.cost import OpCost, price
from simulator.deployment import Deployment
from simulator.ops import Op, StepLoad
from simulator.schedule import ADAPTER, FEATURES, LOGITS, MOVED, N_LOADS, QUERY, IntArray
from simulator.work import ROW_BY_ROW, pass_ops

FloatArray = npt.NDArray[np.float64]

TOTALS: Final = (QUERY, LOGITS, ADAPTER, FEATURES, MOVED)
"""Loads whose sum over the batch is all that the operations but attention know of it."""

BLOCK_TOTALS: Final = 128
"""Consecutive totals that are priced together, the first time that one of them is asked for."""
FIRST_TOTALS: Final = 1024
MOST_TOTALS: Final = 2**17
"""Larger totals are remembered one by one, as are fractions."""
MOST_REMEMBERED: Final = 2**16
# Totals that are whole but for rounding are nearer than this, fractions of padding are not.
ROUNDING: Final = 1e-8
MOST_ALONE: Final = 4096
"""Numbers up to which a product is calculated by one thread."""


class TotalPrice:
    """Seconds of a launch without its attention: a function of each total, added up.

    A total of 0 costs nothing. Padded totals, which may be fractions, cost what they say.
    """

    def __init__(self, deployment: Deployment, stacks: Iterable[str]) -> None:
        """Of every stack; nothing is priced yet but which totals cost anything."""
        self._deployment = deployment
        kinds = [(stack, which) for stack in dict.fromkeys(stacks) for which in TOTALS]
        self._kinds = [kind for kind in kinds if self.costs(*kind, np.ones(1))]
        self._columns = {kind: column for column, kind in enumerate(self._kinds)}
        # Flat and by totals first, so that a total beyond the table is an index beyond it.
        self._table = np.full(FIRST_TOTALS * len(self._kinds), np.nan)
        self._remembered: list[dict[float, float]] = [{} for _ in self._kinds]

    def column(self, stack: str, which: int) -> int | None:
        """Where to look up totals of load *which* through *stack*; None where they cost nothing."""
        return self._columns.get((stack, which))

    def whole(self, columns: IntArray, totals: IntArray) -> FloatArray:
        """Seconds at whole *totals* [k, steps] of *columns* [k, 1]."""
        index = totals * len(self._kinds)
        index += columns
        try:
            seconds = self._table.take(index)
        except IndexError:
            return self._beyond(columns, totals)
        flat = seconds.ravel()
        # Not a number is what no comparison holds for; a product of long arrays would wake threads.
        lacks = np.isnan(flat).any() if len(flat) > MOST_ALONE else not flat.dot(flat) >= 0.0
        if lacks:
            self._fill(columns, totals)
            seconds = self._table.take(index)
        return seconds

    def padded(self, columns: IntArray, totals: FloatArray) -> FloatArray:
        """Seconds at *totals* [k, steps], which may be fractions, of *columns* [k, 1]."""
        nearest = np.rint(totals)
        away = (totals - nearest).ravel()
        squared = np.square(away).sum() if len(away) > MOST_ALONE else away.dot(away)
        if squared < ROUNDING**2:
            return self.whole(columns, nearest.astype(np.int64))
        return self._one_by_one(columns, totals)

    def costs(self, stack: str, which: int, totals: FloatArray) -> list[OpCost]:
        """The operations of a launch that depend on load *which*, at *totals* [n] of it."""
        loads = np.zeros((N_LOADS, 1, len(totals)), dtype=np.int64)
        loads[which] = totals if which == MOVED else 1
        load = StepLoad(loads, padding=totals)
        deployment = self._deployment
        adapter = deployment.adapter if which == ADAPTER else None
        ops = pass_ops(deployment.stack(stack), load, deployment.placement, adapter)
        return price(deployment.hardware, [op for op in ops if _depends_on_total(op)])

    def _seconds(self, column: int, totals: FloatArray) -> FloatArray:
        parts = self.costs(*self._kinds[column], totals)
        seconds: FloatArray = np.sum([part.seconds for part in parts], axis=0)
        return seconds if parts else np.zeros(len(totals))

    def _fill(self, columns: IntArray, totals: IntArray) -> None:
        """Price the blocks of the table that *totals* lie in and that are not there yet."""
        by_total = self._table.reshape(-1, len(self._kinds))
        for column, asked in zip(columns[:, 0].tolist(), totals, strict=True):
            new = np.unique(asked[np.isnan(by_total[asked, column])] // BLOCK_TOTALS)
            if len(new):
                block = (new[:, None] * BLOCK_TOTALS + np.arange(BLOCK_TOTALS)).ravel()
                by_total[block, column] = self._seconds(column, block.astype(float))

    def _beyond(self, columns: IntArray, totals: IntArray) -> FloatArray:
        """A larger table, or none for totals that are too large for any."""
        most = int(totals.max())
        if most >= MOST_TOTALS:
            return self._one_by_one(columns, totals.astype(float))
        size = FIRST_TOTALS
        while size <= most:
            size *= 2
        more = np.full(size * len(self._kinds) - len(self._table), np.nan)
        self._table = np.concatenate([self._table, more])
        return self.whole(columns, totals)

    def _one_by_one(self, columns: IntArray, totals: FloatArray) -> FloatArray:
        """As `padded`, where some of the totals are not in any table."""
        nearest = np.rint(totals)
        tabulated = (np.abs(totals - nearest) < ROUNDING) & (nearest < MOST_TOTALS)
        whole = np.where(tabulated, nearest, 0.0).astype(np.int64)
        seconds = self.whole(columns, whole)
        for column, row, known, into in zip(
            columns[:, 0].tolist(), totals, tabulated, seconds, strict=True
        ):
            into[~known] = self._recalled(column, row[~known])
        return seconds

    def _recalled(self, column: int, totals: FloatArray) -> FloatArray:
        distinct, places = np.unique(totals, return_inverse=True)
        remembered = self._remembered[column]
        new = [total for total in distinct.tolist() if total not in remembered]
        if new:
            if len(remembered) + len(new) > MOST_REMEMBERED:
                remembered.clear()
                new = distinct.tolist()
            seconds = self._seconds(column, np.array(new))
            remembered.update(zip(new, seconds.tolist(), strict=True))
        found: FloatArray = np.array([remembered[total] for total in distinct.tolist()])[places]
        return found


def _depends_on_total(op: Op) -> bool:
    """Whether *op* is there at all for the one load that is, and is no attention."""
    return op.name not in ROW_BY_ROW and bool(op.bytes.any() or op.link_bytes.any())
