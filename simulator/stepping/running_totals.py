"""RunningTotals: sums and maxima over the rows of a batch, for every step to come."""

from typing import Final

import numpy as np
import numpy.typing as npt

from simulator.batch_price import KV_BYTES, Terms

FloatArray = npt.NDArray[np.float64]

FIRST_STEPS: Final = 1024


class RunningTotals:
    """Columns over steps of the batch, from the present one on."""

    def __init__(self, n_sums: int, n_maxima: int) -> None:
        """Nobody takes part in any step."""
        self._first = 0
        """The step of column 0."""
        self._sums = np.zeros((n_sums, FIRST_STEPS))
        self._maxima = np.zeros((n_maxima, FIRST_STEPS))
        self._makers = np.zeros((n_maxima, FIRST_STEPS))
        """How many rows reach each of the maxima."""

    def add(self, step: int, terms: Terms, kv_bytes: FloatArray) -> None:
        """A row takes part with *terms*, and holds *kv_bytes*, from *step* on."""
        columns = self._columns(step, terms.sums.shape[1])
        self._sums[:, columns] += terms.sums
        self._sums[KV_BYTES, columns] += kv_bytes
        self.raise_maxima(step, terms)

    def over(self, step: int, n_steps: int) -> tuple[FloatArray, FloatArray]:
        """(sums, maxima) of *n_steps* from *step* on: views that the next addition changes."""
        columns = self._columns(step, n_steps)
        return self._sums[:, columns], self._maxima[:, columns]

    def kv_bytes(self, step: int) -> float:
        """Cache held during *step*."""
        return float(self._sums[KV_BYTES, self._column(step, 1)])

    def remove(self, step: int, terms: Terms, kv_bytes: FloatArray) -> range:
        """Undo what `add` did, but for maxima that no other row reaches: the steps of those.

        Of whole numbers, which most sums are of, nothing is left; of others a rounding.
        """
        columns = self._columns(step, terms.sums.shape[1])
        self._sums[:, columns] -= terms.sums
        self._sums[KV_BYTES, columns] -= kv_bytes
        reached = self._maxima[:, columns] == terms.maxima
        self._makers[:, columns] -= reached
        lonely = np.flatnonzero((reached & (self._makers[:, columns] == 0.0)).any(axis=0))
        return range(step + int(lonely[0]), step + int(lonely[-1]) + 1) if len(lonely) else range(0)

    def forget_maxima(self, steps: range) -> None:
        """Nobody has raised any maximum of *steps*."""
        columns = self._columns(steps.start, len(steps))
        self._maxima[:, columns] = 0.0
        self._makers[:, columns] = 0.0

    def raise_maxima(self, step: int, terms: Terms) -> None:
        """The maxima are at least those of *terms*, from *step* on."""
        columns = self._columns(step, terms.maxima.shape[1])
        maxima, makers = self._maxima[:, columns], self._makers[:, columns]
        makers += terms.maxima == maxima
        makers[terms.maxima > maxima] = 1.0
        np.maximum(maxima, terms.maxima, out=maxima)

    def _columns(self, step: int, n_steps: int) -> slice:
        """Those of *n_steps* from *step* on."""
        start = self._column(step, n_steps)
        return slice(start, start + n_steps)

    def _column(self, step: int, n_steps: int) -> int:
        """The column of *step*, once there is room for *n_steps* from it on.

        Steps before the one that was asked for first are over, so their columns are used again.
        """
        column = step - self._first
        size = self._sums.shape[1]
        if column + n_steps > size:
            larger = max(size, 2 * n_steps)
            self._sums = _moved(self._sums, column, larger)
            self._maxima = _moved(self._maxima, column, larger)
            self._makers = _moved(self._makers, column, larger)
            self._first, column = step, 0
        return column


def _moved(array: FloatArray, start: int, size: int) -> FloatArray:
    """*array* from column *start* on as the first columns of one with *size* more than are left."""
    kept = array[:, start:]
    moved = np.zeros((len(array), kept.shape[1] + size))
    moved[:, : kept.shape[1]] = kept
    return moved
