"""A fixed buffer of blocks with static shapes (Multi-Block Diffusion, Algorithm 5)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulator.blocks import BlockCount, BlockParameters, Share, block_steps, denoising_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.block_source import overwrites
from simulator.replay.running_set import RunningSet
from simulator.replay.trajectories import Updates
from simulator.request import Request
from simulator.schedule import BoolArray, FloatArray, IntArray, Schedule

USES = Uses()
REPLAYS = Replays(
    policies=("block-buffer", "multi-block"),
    free=("buffer", "tau_add", "tau_semi", "tau_stable", "post_edit_steps", "forced"),
)


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*buffer* slots (N_buf) of *block* tokens; all else acts on traces."""

    policy: Literal["block-buffer"]
    buffer: BlockCount = 2
    tau_add: Share = 0.1
    """Least share of tokens in the last active block that activates the next slot."""
    tau_semi: Share = 0.9
    """Least share of tokens in a block that makes it semi-complete."""
    tau_stable: Share = 0.0
    """Least stability of the last active block that activates the next slot: with edits the share
    of its tokens that the last forward would write again, otherwise 1 once it is complete."""
    post_edit_steps: BlockCount = 16
    """Forwards without a mask after which edits are frozen; a block takes part in so many more than
    it has places at most."""
    forced: Literal["semi-complete", "always"] = "semi-complete"
    """Where no mask is above the threshold the best is revealed: behind a semi-complete block only,
    or always."""


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Every forward runs buffer x block rows, dummies included, through GEMMs and LM head.

    A finished block is stored by the next forward, beside later blocks; with one slot there is
    nothing beside it, so the block costs at least two forwards.
    """
    query = parameters.buffer * parameters.block
    steps = block_steps(request, parameters, least_forwards=2 if parameters.buffer == 1 else 1)
    return denoising_schedule(steps.emitted_tokens, query, steps.start_tokens, request, parameters)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:
    """A complete block is stored by the next forward; its slot is free for the one after."""
    blocks.prefill()
    running, rows = RunningSet(blocks), blocks.rows
    slots = _Slots(blocks, parameters)
    running.add(rows)
    while True:
        # Activate future blocks without changing the shape.
        running.add(rows[_may_activate(running, slots, rows, parameters)])
        rows = rows[running.live(rows) > 0]
        if not len(rows):
            return
        # Decode the static buffer. What the forward sees decides, not what it reveals.
        forced = running.is_behind(rows, parameters.tau_semi) | (parameters.forced == "always")
        stored = running.first_active[rows]
        left, right = running.left[rows], running.right[rows]
        blocks.forward(rows, left, right, kind=running.kind(rows), slots=parameters.buffer)
        slots.settle(blocks.update(rows, stored, right, forced))
        running.mark_to_cache(rows, slots.ready)
        # Commit the prefix that was to-cache already, and slide the buffer.
        running.leave(rows, stored)


def _may_activate(
    running: RunningSet, slots: "_Slots", rows: IntArray, parameters: Parameters
) -> BoolArray:
    """Whether the first dummy slot becomes active; with nothing live there is no one to ask."""
    steady = running.frontier_progress(rows) >= parameters.tau_add
    steady &= slots.stability[rows, running.right[rows] - 1] >= parameters.tau_stable
    live = running.live(rows)
    activates: BoolArray = (live < parameters.buffer) & (steady | (live == 0))
    return activates & running.may_grow(rows)


class _Slots:
    """What is known of every block while it is active, [requests, blocks]."""

    def __init__(self, blocks: BlockReplay, parameters: Parameters) -> None:
        self._blocks, self._parameters = blocks, parameters
        self._edits = overwrites(blocks.source.trace.manifest)
        shape = blocks.masks.shape
        self._forwards, self._mask_free = np.zeros((2, *shape), dtype=np.int64)
        self.stability = np.zeros(shape)
        """Before the first forward nothing is known, which is not stable."""
        self.ready = np.zeros(shape, dtype=np.bool_)
        """Complete, and for models that edit: unchanged by the last forward, or frozen."""

    def settle(self, done: Updates) -> None:
        """Whether the updated blocks are ready to be stored."""
        at = done.row, done.block
        complete = done.masked == done.revealed
        before = self.ready[at]
        if self._edits:
            self.stability[at] = self._stability(done)
            after = complete & ((done.revealed + done.edited == 0) | self._frozen(done))
        else:
            self.stability[at] = complete
            after = complete
        self.ready[at] = after
        newly = after & ~before
        self._blocks.finish(done.row[newly], done.block[newly])

    def _stability(self, done: Updates) -> FloatArray:
        answered = self._blocks.requests.masks[done.row, done.block] - done.masked
        return np.where(answered > 0, done.agreeing / np.maximum(answered, 1), 0.0)

    def _frozen(self, done: Updates) -> BoolArray:
        at, most = (done.row, done.block), self._parameters.post_edit_steps
        self._forwards[at] += 1
        self._mask_free[at] += done.masked == 0
        last = self._forwards[at] >= self._blocks.block_tokens + most
        frozen: BoolArray = last | (self._mask_free[at] >= most)
        return frozen
