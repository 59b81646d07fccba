"""One block at a time with self-correction: unmask and edit in every forward (LLaDA-2.1)."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulator.blocks import Block, BlockParameters, block_steps, denoising_schedule
from simulator.decoding import Replays, Setting, Uses
from simulator.replay.block_replay import BlockReplay
from simulator.replay.serial import replay_serially
from simulator.replay.trajectories import Updates
from simulator.request import Request
from simulator.schedule import BoolArray, Schedule

USES = Uses()
REPLAYS = Replays(policies=("joint-threshold", "gwd"), free=("post_edit_steps",))


@dataclass(frozen=True, kw_only=True)
class Parameters(BlockParameters):
    """*block* queries per forward."""

    policy: Literal["joint-threshold"]
    post_edit_steps: Block = 16
    """Forwards without a mask after which edits are frozen (S_pe)."""


def schedule(request: Request, parameters: Parameters, setting: Setting) -> Schedule:  # noqa: ARG001 (the interface)
    """A block ends with a forward that changes nothing, which has stored its KV: no extra one."""
    steps = block_steps(request, parameters, least_forwards=2)
    return denoising_schedule(
        steps.emitted_tokens, parameters.block, steps.start_tokens, request, parameters
    )


def replay(blocks: BlockReplay, parameters: Parameters) -> None:
    """Once edits are frozen the next forward is there only to store what stands."""
    mask_free = np.zeros_like(blocks.masks)
    most = parameters.post_edit_steps

    def ends(done: Updates) -> BoolArray:
        free = done.masked == 0
        # A forward behind the last that may edit leaves what it finds.
        stops = mask_free[done.row, done.block] >= most
        mask_free[done.row, done.block] += free
        ended: BoolArray = free & ((done.edited == 0) | stops)
        return ended

    replay_serially(
        blocks, ends, store="within", stores=lambda rows, block: mask_free[rows, block] >= most
    )
