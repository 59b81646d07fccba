"""Gated wavefront decoding: a window of blocks, the leading one retires (FlowBlock, Alg. 1)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulator.blocks import BlockCount, BlockParameters, Share, block_steps, denoising_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.request import Request
from simulator.schedule import BoolArray, IntArray, Schedule

USES = Uses()
REPLAYS = Replays(
    policies=("gwd", "joint-threshold"),
    free=("window", "theta_spawn", "batching", "full_window"),
)


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*window* is W, the most blocks in flight; the gate and what follows it act on traces."""

    policy: Literal["gwd"]
    window: BlockCount = 2
    theta_spawn: Share = 0.6
    """Least readiness of the last block that admits the next one."""
    batching: Literal["packed", "synchronous"] = "packed"
    """Every row has its own window (section 4.2), or all rows of a batch share one (figure 5)."""
    full_window: bool = True
    """A forward has the queries of W blocks, admitted or not (sections 4.1 and 4.2), or those of
    the live ones alone (Algorithm 1)."""

    @property
    def shares_batch(self) -> bool:
        """Whether what a request does depends on who is in its batch."""
        return self.batching == "synchronous"


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Every forward has window x block queries and LM-head rows, admitted or not.

    The retiring forward changed nothing in its block, so it has stored it (section 4.1).
    """
    query = parameters.window * parameters.block
    steps = block_steps(request, parameters, least_forwards=1)
    return denoising_schedule(steps.emitted_tokens, query, steps.start_tokens, request, parameters)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:
    """Algorithm 1. At most one block is admitted per forward: a new one has no readiness yet.

    A synchronous batch retires its leading block when all rows have finished theirs, and admits by
    its least ready row; rows that are over have left it.
    """
    blocks.prefill()
    window = _Window(blocks, parameters)
    rows = blocks.rows
    window.admit(rows)
    while len(rows):
        left, right = window.left[rows], window.right[rows]
        blocks.forward(rows, left, right, slots=parameters.window * parameters.full_window)
        window.update(rows)
        rows = window.retire(rows)
        window.admit(rows[window.may_admit(rows)])


class _Window:
    """The live blocks of every row, from *left* up to *right*."""

    def __init__(self, blocks: BlockReplay, parameters: Parameters) -> None:
        self._blocks, self._parameters = blocks, parameters
        self.left = np.zeros_like(blocks.rows)
        self.right = np.zeros_like(blocks.rows)
        self._readiness = np.zeros(blocks.masks.shape)
        self._finished: BoolArray = np.zeros(blocks.masks.shape, dtype=np.bool_)

    def admit(self, rows: IntArray) -> None:
        """The next block of each row joins."""
        self._blocks.admit(rows, self.right[rows])
        self.right[rows] += 1

    def update(self, rows: IntArray) -> None:
        """Every live block: how ready it was, and whether it is locally finished."""
        done = self._blocks.update(rows, self.left[rows], self.right[rows])
        self._readiness[done.row, done.block] = done.readiness
        before = self._finished[done.row, done.block]
        after = (done.masked == 0) & (done.edited == 0)
        self._finished[done.row, done.block] = after
        newly = after & ~before
        self._blocks.finish(done.row[newly], done.block[newly])

    def retire(self, rows: IntArray) -> IntArray:
        """Leading blocks that are finished leave; the rows that go on."""
        while True:
            leads = rows[self._leads_finished(rows)]
            if not len(leads):
                return rows
            over = self._blocks.retire(leads, self.left[leads])
            self.left[leads] += 1
            rows = np.setdiff1d(rows, leads[over], assume_unique=True)

    def _leads_finished(self, rows: IntArray) -> BoolArray:
        """Whether a row's leading block, and that of every row of its group, is finished."""
        left = np.minimum(self.left[rows], self._finished.shape[1] - 1)
        own = (self.left[rows] < self.right[rows]) & self._finished[rows, left]
        return self._blocks.least_in_group(own.astype(float), rows) > 0

    def may_admit(self, rows: IntArray) -> BoolArray:
        """Whether there is a next block, room for it, and a frontier that is ready enough.

        The frontier is wholly ready where it has retired.
        """
        left, right = self.left[rows], self.right[rows]
        room = right - left < self._parameters.window
        room &= right < self._blocks.requests.n_blocks[rows]
        frontier = self._readiness[rows, right - 1]
        ready = np.where(right > left, frontier, 1.0)
        ready = self._blocks.least_in_group(ready, rows)
        return room & (ready >= self._parameters.theta_spawn)
