"""Naive multi-block decoding: a running set that grows and shrinks (MBD, Algorithm 4)."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import LiveBlockParameters, Share, live_block_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.running_set import RunningSet
from simulator.request import Request
from simulator.schedule import Schedule

USES = Uses()
REPLAYS = Replays(policies=("multi-block", "block-buffer"), free=("tau_add", "tau_semi"))


@dataclass(frozen=True, kw_only=True)
class Parameters(LiveBlockParameters):
    """Thresholds act on traces; a constant pace needs *live_blocks*."""

    policy: Literal["multi-block"]
    tau_add: Share = 0.1
    """Least share of tokens in the last block that appends the next one."""
    tau_semi: Share = 0.9
    """Least share of tokens in a block that lets the one behind it reveal its best mask."""


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Every forward has *live_blocks* x block queries; the next one stores what is complete."""
    return live_block_schedule(request, parameters)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:
    """Algorithm 4, which stores a block in the forward after the one that completes it."""
    blocks.prefill()
    running, rows = RunningSet(blocks), blocks.rows
    running.add(rows)
    while len(rows):
        grows = running.frontier_progress(rows) >= parameters.tau_add
        running.add(rows[grows & running.may_grow(rows)])
        # What the forward sees decides, not what it reveals.
        forced = running.is_behind(rows, parameters.tau_semi)
        stored = running.first_active[rows]
        blocks.forward(rows, running.left[rows], running.right[rows], kind=running.kind(rows))
        running.accept(rows, forced)
        running.mark_to_cache(rows)
        running.leave(rows, stored)
        rows = rows[running.live(rows) > 0]
