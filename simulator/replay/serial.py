"""Serial replay: one block after the other, and how the KV of a finished one is stored."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from simulator.replay.block_record import KIND
from simulator.replay.block_replay import BlockReplay
from simulator.replay.trajectories import Updates
from simulator.schedule import BoolArray, IntArray

Store = Literal["separate", "fused", "within"]
"""A forward of its own; beside the first forward of the next block, where the last block needs
none; or by the block's own last forward, which changed nothing."""


def replay_serially(
    blocks: BlockReplay,
    ends: Callable[[Updates], BoolArray],
    *,
    store: Store,
    stores: Callable[[IntArray, IntArray], BoolArray] | None = None,
) -> None:
    """Denoise each block until an update *ends* it ([updated blocks]), then store it.

    *stores* says of (rows, blocks) whether the next forward is there only to store.
    """
    blocks.prefill()
    rows = blocks.rows
    block, fresh = np.zeros_like(rows), np.ones_like(rows, dtype=np.bool_)
    complete = np.zeros_like(fresh)
    blocks.admit(rows, block)
    while len(rows):
        stored = (fresh[rows] & (block[rows] > 0) & (store == "fused")).astype(np.int64)
        kinds = np.where(stored == 1, KIND["fused-store"], KIND["denoise"])
        storing = complete[rows] if stores is None else stores(rows, block[rows])
        kinds = np.where(storing, KIND["store"], kinds)
        here = block[rows]
        blocks.forward(rows, here - stored, here + 1, kind=kinds, stored=stored, window_left=here)
        fresh[rows] = False
        active = rows[~complete[rows]]
        leaving = rows[complete[rows]]
        done = blocks.update(active, block[active], block[active] + 1)
        ended = active[ends(done)]
        blocks.finish(ended, block[ended])
        if store == "separate":
            complete[ended] = True
        else:
            leaving = ended
        over = blocks.retire(leaving, block[leaving])
        rows = np.setdiff1d(rows, leaving[over], assume_unique=True)
        onward = leaving[~over]
        block[onward] += 1
        fresh[onward], complete[onward] = True, False
        blocks.admit(onward, block[onward])
