"""NearestSteps: recorded local steps whose surroundings are nearest to given ones."""

from typing import Final

import numpy as np

from simulator.replay import keyed_draws
from simulator.replay.block_source import N_ROLES, BlockSource
from simulator.schedule import IntArray

LEAST_CANDIDATES: Final = 3
"""Steps among which chance decides, and all that are as near as the last of them. Of 1, 3 and 8,
three had the smallest errors when shipped traces of wavefronts and buffers predicted each other."""
NONE: Final = -1


class NearestSteps:
    """Draws local steps by role, masks of the block, and masks of the block before it.

    Near is a small sum of the differences of both counts (a factor of 3 either way changed errors
    by less than a point). A block without masks is only ever near another one, since it is edited
    and not revealed. A role that has no such step takes those of all.
    """

    def __init__(self, source: BlockSource) -> None:
        """Nothing is looked up yet."""
        self._source = source
        self._side = source.block_tokens + 1
        self._role = source.role[source.block_of_step]
        self._place = np.zeros((N_ROLES * self._side**2, 2), dtype=np.int64)
        """First and number of the candidates of every surrounding; no number: not looked up."""
        self._candidates: IntArray = np.zeros(0, dtype=np.int64)

    def draw(self, role: IntArray, masked: IntArray, behind: IntArray, *key: IntArray) -> IntArray:
        """A local step for each of the surroundings, [asked], chosen by *key*; NONE of none."""
        code = (role * self._side + masked) * self._side + behind
        missing = np.unique(code[self._place[code, 1] == 0])
        if len(missing):
            self._look_up(missing)
        first, number = self._place[code].T
        drawn: IntArray = self._candidates[first + keyed_draws.below(number, *key)]
        return drawn

    def _look_up(self, codes: IntArray) -> None:
        found = [self._nearest(*self._parts(int(code))) for code in codes]
        numbers = np.array([len(candidates) for candidates in found])
        self._place[codes, 0] = len(self._candidates) + np.cumsum(numbers) - numbers
        self._place[codes, 1] = numbers
        self._candidates = np.concatenate([self._candidates, *found])

    def _parts(self, code: int) -> tuple[int, int, int]:
        rest, behind = divmod(code, self._side)
        role, masked = divmod(rest, self._side)
        return role, masked, behind

    def _nearest(self, role: int, masked: int, behind: int) -> IntArray:
        source = self._source
        alike = np.flatnonzero((source.masked > 0) == (masked > 0))
        own = alike[self._role[alike] == role]
        pool = own if len(own) else alike
        if not len(pool):
            return np.array([NONE])
        apart = np.abs(source.masked[pool] - masked) + np.abs(source.behind[pool] - behind)
        last = np.sort(apart)[:LEAST_CANDIDATES][-1]
        nearest: IntArray = pool[apart <= last]
        return nearest
