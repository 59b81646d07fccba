"""Discrete Diffusion Forcing: a pipeline of blocks behind a prompt that sees all of itself."""

from dataclasses import dataclass
from typing import Literal

from simulator.blocks import LiveBlockParameters, Share, live_block_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.running_set import RunningSet
from simulator.request import Request
from simulator.schedule import Schedule

USES = Uses()
REPLAYS = Replays(policies=("d2f",), free=("tau_add", "tau_act"), from_prompt=True, prefills=False)


@dataclass(frozen=True, kw_only=True)
class Parameters(LiveBlockParameters):
    """The published settings for GSM8K; a constant pace needs *live_blocks*."""

    policy: Literal["d2f"]
    tau_add: Share = 0.7
    """Least share of tokens in the last block that appends the next one."""
    tau_act: Share = 0.95
    """Least share of tokens in a block that activates the one behind it fully."""


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """Every forward has *live_blocks* x block queries; the next one stores what is complete."""
    return live_block_schedule(request, parameters)


def replay(blocks: BlockReplay, parameters: Parameters) -> None:
    """The first forward takes the prompt too; blocks that finish last are never stored."""
    running, rows = RunningSet(blocks), blocks.rows
    is_first = True
    while True:
        grows = running.frontier_progress(rows) >= parameters.tau_add
        running.add(rows[grows & running.may_grow(rows)])
        over = rows[running.active(rows) == 0]
        running.leave(over, running.right[over])
        rows = rows[running.active(rows) > 0]
        if not len(rows):
            return
        forced = running.is_behind(rows, parameters.tau_act)
        stored = running.first_active[rows]
        if is_first:
            through_block = blocks.requests.start + blocks.block_tokens
            blocks.forward_from_start(rows, "denoise", through_block, blocks=1)
        else:
            blocks.forward(rows, running.left[rows], running.right[rows])
        is_first = False
        running.accept(rows, forced)
        running.mark_to_cache(rows)
        running.leave(rows, stored)
