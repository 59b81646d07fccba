"""StepEnds: when the steps of a batch ended, as far back as its rows need it."""

from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

FIRST_STEPS: Final = 4096


class StepEnds:
    """Times of consecutive steps, counted from the first one."""

    def __init__(self) -> None:
        """No step yet."""
        self._first = 0
        self._count = 0
        self._times = np.zeros(FIRST_STEPS)

    def has_room(self, n_steps: int) -> bool:
        """Whether *n_steps* more can be pushed before the oldest should be forgotten."""
        return self._count + n_steps <= len(self._times)

    def forget_before(self, step: int) -> None:
        """Nobody asks for steps before *step* any more."""
        unneeded = min(step - self._first, self._count)
        kept = self._times[unneeded : self._count]
        times = np.zeros(2 * max(len(kept), FIRST_STEPS))
        times[: len(kept)] = kept
        self._times, self._count = times, len(kept)
        self._first += unneeded

    def push(self, ends_s: FloatArray) -> None:
        """The next steps ended at *ends_s*, for which there is room."""
        self._times[self._count : self._count + len(ends_s)] = ends_s
        self._count += len(ends_s)

    def between(self, start: int, stop: int) -> FloatArray:
        """A copy of the ends of steps *start* up to *stop*."""
        return self._times[start - self._first : stop - self._first].copy()
