"""Trajectories: what a forward does to blocks, read off the trace.

A block follows its recorded trajectory while it meets there what it has now: as many masks of its
own, and as many in the block before it. Where it meets something else it goes on from a recorded
local step, of a block of the same role, that comes nearest to that. With the parameters of the
capture nothing else is ever met, so every forward is the captured one: exact replay is not another
program but the case in which the nearest step is the recorded one.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from simulator.replay.block_requests import NO_BLOCK, BlockRequests
from simulator.replay.block_source import BlockSource
from simulator.replay.nearest_steps import NONE, NearestSteps
from simulator.schedule import BoolArray, FloatArray, IntArray

OFF: Final = -1
"""A block that follows no recorded trajectory."""


@dataclass(frozen=True, eq=False)
class Updates:
    """What a forward found and changed in the blocks that it updated; all arrays are [blocks]."""

    row: IntArray
    block: IntArray
    masked: IntArray
    ready: IntArray
    revealed: IntArray
    edited: IntArray
    agreeing: IntArray

    @property
    def readiness(self) -> FloatArray:
        """Share of the masks that were ready; 1 where there was none (FlowBlock, equation 2)."""
        return np.where(self.masked > 0, self.ready / np.maximum(self.masked, 1), 1.0)


class Trajectories:
    """Where every block of every request is on what is recorded."""

    def __init__(self, source: BlockSource, requests: BlockRequests) -> None:
        """Blocks begin on the trajectories that *requests* names."""
        self._source, self._requests = source, requests
        self._nearest = NearestSteps(source)
        self._next = np.full_like(requests.recorded, OFF)
        begun = requests.recorded != NO_BLOCK
        self._next[begun] = source.start[requests.recorded[begun]]
        self._end = np.full_like(self._next, OFF)
        self._end[begun] = source.start[requests.recorded[begun] + 1]
        self.followed = self.drawn = 0
        """Local steps that were recorded for their block, and those drawn from others."""

    def take(  # noqa: PLR0913, PLR0917 (what a block meets)
        self,
        row: IntArray,
        block: IntArray,
        masked: IntArray,
        behind: IntArray,
        forward: IntArray,
        forced: BoolArray | None,
    ) -> tuple[Updates, IntArray]:
        """What happens to blocks that have *masked* masks, and *behind* in the block before them.

        All arrays are [blocks]. *forward* keys the draws. Where given, *forced* are the blocks that
        reveal a mask in any case; the others reveal none that is not ready. Also the masks left.
        """
        step = self._steps(row, block, masked, behind, forward)
        counts = self._counts(step, masked, behind, forced)
        return Updates(row, block, **counts), self._masks_after(row, block, step, counts)

    def has_ended(self, done: Updates) -> BoolArray:
        """Whether the updated blocks have come to the end of what is recorded of them, [blocks]."""
        at = done.row, done.block
        ended: BoolArray = (self._next[at] >= self._end[at]) & (done.masked == done.revealed)
        return ended

    def _steps(
        self, row: IntArray, block: IntArray, masked: IntArray, behind: IntArray, forward: IntArray
    ) -> IntArray:
        """The recorded local step that each block takes; NONE where nothing is to happen."""
        source, step = self._source, self._next[row, block]
        going = (step != OFF) & (step < self._end[row, block])
        place = np.where(going, step, 0)
        meets = going & (source.masked[place] == masked) & (source.behind[place] == behind)
        # A block that has come to its recorded end without a mask has settled.
        settled = (step != OFF) & ~going & (masked == 0)
        off = ~meets & ~settled
        taken = np.where(settled, NONE, place)
        if off.any():
            taken[off] = self._drawn(row[off], block[off], masked[off], behind[off], forward[off])
        self.followed += int(meets.sum())
        moved = taken != NONE
        self._next[row[moved], block[moved]] = taken[moved] + 1
        self._end[row[off & moved], block[off & moved]] = source.start[
            source.block_of_step[taken[off & moved]] + 1
        ]
        return taken

    def _drawn(
        self, row: IntArray, block: IntArray, masked: IntArray, behind: IntArray, forward: IntArray
    ) -> IntArray:
        """Local steps of other blocks, each drawn by request, block and forward."""
        requests = self._requests
        key = (*requests.keys[:, row], block, forward)
        self.drawn += len(row)
        return self._nearest.draw(requests.roles[row, block], masked, behind, *key)

    def _counts(
        self, step: IntArray, masked: IntArray, behind: IntArray, forced: BoolArray | None
    ) -> dict[str, IntArray]:
        """The counts of the recorded steps, in proportion where masks were not as many."""
        source, there = self._source, step != NONE
        place = np.where(there, step, 0)
        recorded = np.maximum(source.masked[place], 1)

        def in_proportion(values: IntArray) -> IntArray:
            share = np.rint(values[place] * masked / recorded).astype(np.int64)
            return np.where(there, np.clip(share, 0, masked), 0)

        ready, revealed = in_proportion(source.ready), in_proportion(source.revealed)
        # Whoever revealed a mask reveals one of few as well, and so does a leading block that is
        # in surroundings which the trace has not: nothing stalls.
        strange = (source.masked[place] != masked) | (source.behind[place] != behind)
        some = (source.revealed[place] > 0) | (strange & (behind == 0))
        some &= there & (masked > 0)
        revealed = np.where(some, np.maximum(revealed, 1), revealed)
        if forced is not None:
            # More than one mask at once is not forced by this rule.
            unsure = (ready == 0) & (revealed <= 1)
            revealed = np.where(unsure, (forced & (masked > 0)).astype(np.int64), revealed)
        return {
            "masked": masked,
            "ready": ready,
            "revealed": revealed,
            "edited": np.where(there, source.edited[place], 0),
            "agreeing": np.where(there, source.agreeing[place], 0),
        }

    def _masks_after(
        self, row: IntArray, block: IntArray, step: IntArray, counts: dict[str, IntArray]
    ) -> IntArray:
        """Masks that are left, which a trajectory that was followed says itself.

        It differs from what was revealed where tokens may become noise again.
        """
        source, after = self._source, self._next[row, block]
        left = counts["masked"] - counts["revealed"]
        place, follows = np.where(step != NONE, step, 0), step != NONE
        follows &= after < self._end[row, block]
        for name in ("masked", "revealed"):
            follows &= getattr(source, name)[place] == counts[name]
        return np.where(follows, source.masked[np.where(follows, after, 0)], left)
