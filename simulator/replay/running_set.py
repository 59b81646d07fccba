"""RunningSet: blocks that are decoded together and leave from the left once stored.

A block is first active, then to-cache, then in-cache (Multi-Block Diffusion, appendix C.3; Discrete
Diffusion Forcing has the same states). To-cache blocks ride in the next forward with their final
tokens, so that their KV is exact, and leave with it.
"""

import numpy as np

from simulator.replay.block_record import KIND
from simulator.replay.block_replay import BlockReplay, pairs
from simulator.schedule import BoolArray, FloatArray, IntArray


class RunningSet:
    """Of every row the blocks from *left* up to *right*: to-cache ones before *first_active*."""

    def __init__(self, blocks: BlockReplay) -> None:
        """Begin with no block."""
        self.blocks = blocks
        self.left, self.first_active, self.right = (np.zeros_like(blocks.rows) for _ in range(3))

    def live(self, rows: IntArray) -> IntArray:
        """Blocks that are active or to-cache, [rows]."""
        return self.right[rows] - self.left[rows]

    def active(self, rows: IntArray) -> IntArray:
        """Blocks that are active, [rows]."""
        return self.right[rows] - self.first_active[rows]

    def frontier_progress(self, rows: IntArray) -> FloatArray:
        """Share of the last block that is no mask, [rows]; 1 before block 0."""
        return self.blocks.progress(rows, self.right[rows] - 1)

    def may_grow(self, rows: IntArray) -> BoolArray:
        """Whether there is a next block, and no end token stands in the answer yet, [rows]."""
        return self.blocks.has_room_after(rows, self.right[rows])

    def add(self, rows: IntArray) -> None:
        """The next block of each row becomes active."""
        self.blocks.admit(rows, self.right[rows])
        self.right[rows] += 1

    def kind(self, rows: IntArray) -> IntArray:
        """What the next forward is for, [rows]: where no block is active it stores only."""
        return np.where(self.active(rows) > 0, KIND["denoise"], KIND["store"])

    def pairs(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """(row, block) of the active blocks, row by row."""
        return pairs(rows, self.first_active[rows], self.right[rows])

    def is_behind(self, rows: IntArray, progress: float) -> BoolArray:
        """Of the active blocks, row by row, whether the one before is decoded as far."""
        row, block = self.pairs(rows)
        return self.blocks.progress(row, block - 1) >= progress

    def accept(self, rows: IntArray, forced: BoolArray) -> None:
        """The last forward reveals masks of the active blocks; at least one where *forced*."""
        done = self.blocks.update(rows, self.first_active[rows], self.right[rows], forced)
        complete = (done.masked > 0) & (done.masked == done.revealed)
        self.blocks.finish(done.row[complete], done.block[complete])

    def mark_to_cache(self, rows: IntArray, ready: BoolArray | None = None) -> None:
        """From the left on: active blocks that are *ready* [rows, blocks] behind none that is not.

        Ready are the complete ones when absent.
        """
        ready = self.blocks.masks == 0 if ready is None else ready
        while True:
            first = np.minimum(self.first_active[rows], ready.shape[1] - 1)
            moving = rows[(self.active(rows) > 0) & ready[rows, first]]
            if not len(moving):
                return
            self.first_active[moving] += 1

    def leave(self, rows: IntArray, until: IntArray) -> None:
        """Blocks before *until* [rows] are in cache."""
        self.blocks.retire(*pairs(rows, self.left[rows], until))
        self.left[rows] = until
